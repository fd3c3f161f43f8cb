package node

import (
	"maps"
	"slices"
)

// MetaWords are values by keys, and the keys that are to have none: a map with values that are nothing is refused by
// whoever decodes it.
type MetaWords struct {
	Values map[string]string `cbor:",omitempty"`
	Absent []string          `cbor:",omitempty"`
}

// MetaWordsOf is what a map says in which nil takes a key away.
func MetaWordsOf(all map[string]*string) MetaWords {
	w := MetaWords{Values: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if v := all[key]; v != nil {
			w.Values[key] = *v
		} else {
			w.Absent = append(w.Absent, key)
		}
	}
	return w
}

// Map is the map that says it.
func (w MetaWords) Map() map[string]*string {
	out := map[string]*string{}
	for key, v := range w.Values {
		out[key] = &v
	}
	for _, key := range w.Absent {
		out[key] = nil
	}
	return out
}
