"""`gatelab fit`: a file of the user's becomes a trained model and a report, with defaults that need no tuning."""
