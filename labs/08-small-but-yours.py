"""Lab 8 has no function that is compared with an answer: its parts are checked by
`attnbook.labs.project`, its projects are scored by `attnbook labs leaderboard`, and its report is
read by a person (see labs/README.md)."""

QUESTIONS = {}
