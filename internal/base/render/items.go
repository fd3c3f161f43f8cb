package render

import (
	"encoding/json"
	"maps"
	"slices"
)

// Items are what a variable holds, by their keys, as nomadVar gives them.
type Items map[string]Item

// Item is one value of a variable. It is a text wherever a text is asked for.
type Item struct {
	Key    string
	Value  string
	Parent Path // the variable
}

// Text is the value: functions and comparisons take it.
func (i Item) Text() string { return i.Value }

// String is the value: it is printed.
func (i Item) String() string { return i.Value }

// MarshalJSON writes the value alone.
func (i Item) MarshalJSON() ([]byte, error) { return json.Marshal(i.Value) }

// Tuple is an item with its key.
type Tuple struct {
	K string
	V string
}

// items are those of a variable that lies at the path.
func items(path string, values map[string]string) Items {
	out := Items{}
	for k, v := range values {
		out[k] = Item{k, v, Path{Path: path}}
	}
	return out
}

// Member is what items have beside their keys, over which it goes.
func (i Items) Member(name string) (any, bool) {
	keys := slices.Sorted(maps.Keys(i))
	switch name {
	case "Keys":
		return keys, true
	case "Values":
		var out []string
		for _, k := range keys {
			out = append(out, i[k].Value)
		}
		return out, true
	case "Tuples":
		var out []Tuple
		for _, k := range keys {
			out = append(out, Tuple{k, i[k].Value})
		}
		return out, true
	case "Parent", "Metadata":
		for _, one := range i {
			return one.Parent, true
		}
		return Path{}, true
	}
	return nil, false
}
