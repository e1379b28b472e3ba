"""Stock clients: producing, consuming and administration."""
