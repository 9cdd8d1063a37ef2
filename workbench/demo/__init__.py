"""The demo campaign: own sentences with links, gold, two annotators' layers and the stage each has reached."""
