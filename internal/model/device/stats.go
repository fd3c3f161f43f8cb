package device

import "time"

// Stats are figures of the instances of one kind, by id, as their plugin reports them.
type Stats struct {
	Kind
	Instances map[string]InstanceStats
}

// InstanceStats are figures of one instance.
type InstanceStats struct {
	Summary *Stat
	Stats   *StatObject
	At      time.Time
}

// StatObject holds figures by name, and objects of figures.
type StatObject struct {
	Nested     map[string]*StatObject `cbor:",omitempty"`
	Attributes map[string]*Stat       `cbor:",omitempty"`
}

// Stat is one figure: a number, perhaps of how many, a text or a truth.
type Stat struct {
	Float, FloatOf *float64 `cbor:",omitempty"`
	Int, IntOf     *int64   `cbor:",omitempty"`
	String         *string  `cbor:",omitempty"`
	Bool           *bool    `cbor:",omitempty"`
	Unit           string   `cbor:",omitempty"`
	Desc           string   `cbor:",omitempty"`
}
