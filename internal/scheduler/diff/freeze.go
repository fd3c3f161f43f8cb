package diff

// Freeze decides for a group of a job that passes a bound: what runs there goes on, what is lost is marked so, and
// nothing is placed. It looks at the allocs that exist, never at what is asked for.
func Freeze(in Input) Result {
	var r Result
	slots := in.sort(&r)
	for _, i := range sortedKeys(slots) {
		s := slots[i]
		r.lose(s.lost)
		r.Changes.Ignore += uint64(len(s.live) + len(s.migrating))
	}
	return r
}
