"""What a running join learns and how it changes its mind. Plain data; time is passed in."""
