type = "host"
name = "data"
