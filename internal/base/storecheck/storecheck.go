// Package storecheck owns the words in which a check of a data directory answers. Who keeps a store checks it, the
// command line shows what was found.
package storecheck

// Store is what was found of one store.
type Store struct {
	Name  string
	Path  string
	Holds string // for people; empty: it is not there
	// Damage names what is damaged and cannot be done without: the store is refused, or does without it.
	Damage []string
	// Warnings name what is damaged, or was cut off, and is not missed.
	Warnings []string
}

// Report is what was found in a data directory.
type Report struct {
	DataDir string
	Whole   bool // nothing is damaged
	Stores  []Store
}

// Add adds a store to the report.
func (r *Report) Add(s Store) {
	r.Stores = append(r.Stores, s)
	r.Whole = r.Whole && len(s.Damage) == 0
}

// Texts are the errors as they are printed.
func Texts(errs ...error) []string {
	var out []string
	for _, err := range errs {
		if err != nil {
			out = append(out, err.Error())
		}
	}
	return out
}
