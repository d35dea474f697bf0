"""The GitHub Action: settings from inputs, the same comparison as the command line, its surfaces."""
