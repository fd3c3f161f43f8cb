package volume

import (
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Observed is what the provider's list says of a volume beyond its record. It is shown, and decides nothing: a list is
// not consistent (CSI spec, ListVolumes), and a condition is for people (CSI spec, VolumeCondition).
type Observed struct {
	Missing bool // the provider does not list it
	// Elsewhere are nodes, by their ids in the provider's eyes, to which it is published and that no attachment names.
	Elsewhere []string
	Abnormal  bool
	Message   string // of the condition
	Since     time.Time
}

// Listed is a volume as its provider lists it. Nodes mean something only where the plugin says that it lists them.
type Listed struct {
	Nodes      []string
	NodesKnown bool
	Abnormal   bool
	Message    string
}

// Observe holds a volume with its attachments against the provider's list; nil listed: it is not on it. The result is
// nil when the list says nothing beyond the record.
func Observe(attachments []*Attachment, listed *Listed) *Observed {
	if listed == nil {
		return &Observed{Missing: true}
	}
	o := &Observed{Abnormal: listed.Abnormal}
	if listed.Abnormal {
		o.Message = listed.Message
	}
	if listed.NodesKnown {
		for _, node := range listed.Nodes {
			if !slices.ContainsFunc(attachments, func(a *Attachment) bool { return a.StorageNode == node }) {
				o.Elsewhere = append(o.Elsewhere, node)
			}
		}
	}
	if slices.Sort(o.Elsewhere); !o.Abnormal && len(o.Elsewhere) == 0 {
		return nil
	}
	return o
}

// Same compares what was observed, whenever that was.
func (o *Observed) Same(other *Observed) bool {
	if o == nil || other == nil {
		return o == other
	}
	x, y := *o, *other
	x.Since, y.Since = time.Time{}, time.Time{}
	return reflect.DeepEqual(x, y)
}

// Sentences say what was observed.
func (o *Observed) Sentences() []string {
	if o == nil {
		return nil
	}
	since := " (since " + o.Since.UTC().Format(time.RFC3339) + ")"
	var out []string
	if o.Missing {
		out = append(out, "its provider does not list it any more"+since)
	}
	for _, node := range o.Elsewhere {
		out = append(out,
			fmt.Sprintf("its provider lists it as published to node %q, and no attachment is known there%s", node,
				since))
	}
	if o.Abnormal {
		text := o.Message
		if text == "" {
			text = "without a reason"
		}
		out = append(out, "its provider calls its condition abnormal: "+text+since)
	}
	return out
}
