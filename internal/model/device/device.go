// Package device owns the nouns of devices: what a node has, how jobs name it, how its values compare, and which of it
// an alloc was given. A device is what a plugin finds on a node and whose instances are given to one task at a time.
package device

import (
	"slices"
	"strconv"
	"strings"
)

// Schema is the number of the cluster from which on nodes have devices and jobs may ask for them.
const Schema = 15

// Group are the devices of one kind on a node.
type Group struct {
	Vendor     string
	Type       string
	Name       string
	Attributes map[string]Value `cbor:",omitempty"`
	Instances  []Instance       // ordered by id
}

// Instance is one device.
type Instance struct {
	ID      string
	Healthy bool
	Reason  string `cbor:",omitempty"` // why it is not
	BusID   string `cbor:",omitempty"` // where on the PCI bus it is; empty: that is not known
}

// Kind names devices of one kind.
type Kind struct{ Vendor, Type, Name string }

// Kind of the group.
func (g *Group) Kind() Kind { return Kind{g.Vendor, g.Type, g.Name} }

// String is the form in which jobs name it.
func (k Kind) String() string { return k.Vendor + "/" + k.Type + "/" + k.Name }

// Sort orders groups by their kinds.
func Sort(groups []Group) {
	slices.SortFunc(groups, func(a, b Group) int { return strings.Compare(a.Kind().String(), b.Kind().String()) })
}

// Given are instances of one kind that a task was given.
type Given struct {
	Kind
	IDs []string
}

// Matches reports whether a job's name of devices means this kind: it is a type, a vendor and a type, or all three.
// The last one may have slashes of its own.
func (k Kind) Matches(name string) bool {
	switch parts := strings.SplitN(name, "/", 3); len(parts) {
	case 1:
		return parts[0] == k.Type
	case 2:
		return parts[0] == k.Vendor && parts[1] == k.Type
	default:
		return parts[0] == k.Vendor && parts[1] == k.Type && parts[2] == k.Name
	}
}

// ValidName reports whether a job may ask for devices by this name.
func ValidName(name string) bool {
	for _, part := range strings.SplitN(name, "/", 3) {
		if strings.TrimSpace(part) != part || part == "" {
			return false
		}
	}
	return true
}

// Value is what a device has of an attribute: one of the four.
type Value struct {
	Float  *float64 `cbor:",omitempty"`
	Int    *int64   `cbor:",omitempty"`
	String *string  `cbor:",omitempty"`
	Bool   *bool    `cbor:",omitempty"`
	Unit   string   `cbor:",omitempty"`
}

// Text is the value as people write it.
func (v Value) Text() string {
	var text string
	switch {
	case v.Float != nil:
		text = strconv.FormatFloat(*v.Float, 'f', -1, 64)
	case v.Int != nil:
		text = strconv.FormatInt(*v.Int, 10)
	case v.String != nil:
		return *v.String
	case v.Bool != nil:
		return strconv.FormatBool(*v.Bool)
	}
	if v.Unit != "" && text != "" {
		text += " " + v.Unit
	}
	return text
}

// number is the value as one, in the base of its unit.
func (v Value) number() (n float64, base string, ok bool) {
	switch {
	case v.Float != nil:
		n = *v.Float
	case v.Int != nil:
		n = float64(*v.Int)
	default:
		return 0, "", false
	}
	u, known := units[v.Unit]
	if !known {
		return n, v.Unit, true // one that nobody knows compares with itself
	}
	return n * u.factor, u.base, true
}

// ParseValue reads what a job compares with: a truth, a number, perhaps with a unit, or a text.
func ParseValue(text string) Value {
	trimmed := strings.TrimSpace(text)
	if b, err := strconv.ParseBool(trimmed); err == nil && len(trimmed) > 1 {
		return Value{Bool: &b}
	}
	end := strings.LastIndexAny(trimmed, "0123456789.")
	if end >= 0 {
		digits, unit := trimmed[:end+1], strings.TrimSpace(trimmed[end+1:])
		if _, known := units[unit]; known || unit == "" {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
				return Value{Int: &n, Unit: unit}
			}
			if f, err := strconv.ParseFloat(digits, 64); err == nil {
				return Value{Float: &f, Unit: unit}
			}
		}
	}
	return Value{String: &text}
}

// Compare orders two values: below, equal, or above zero. false: they cannot be compared, such as bytes with hertz, or
// a text with a number.
func Compare(a, b Value) (order int, ok bool) {
	switch {
	case a.String != nil && b.String != nil:
		return strings.Compare(*a.String, *b.String), true
	case a.Bool != nil && b.Bool != nil:
		return truth(*a.Bool) - truth(*b.Bool), true
	case a.Int != nil && b.Int != nil && a.Unit == b.Unit: // exactly, however large
		switch {
		case *a.Int < *b.Int:
			return -1, true
		case *a.Int > *b.Int:
			return 1, true
		}
		return 0, true
	}
	x, unitX, okX := a.number()
	y, unitY, okY := b.number()
	if !okX || !okY || unitX != unitY {
		return 0, false
	}
	switch {
	case x < y:
		return -1, true
	case x > y:
		return 1, true
	}
	return 0, true
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
