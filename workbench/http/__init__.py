"""What the web server answers outside Streamlit: the gate, sign-in, health. Pure Starlette."""
