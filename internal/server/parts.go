package server

// builtIn lists the parts that every server has, in the order in which they are made.
func builtIn(Config) []Part {
	return []Part{storage, scheduling}
}
