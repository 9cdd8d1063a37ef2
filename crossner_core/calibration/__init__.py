"""Score calibration: reliability, temperature, span scores, and each prediction source's accuracy on gold."""
