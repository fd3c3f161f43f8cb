package nodes

import (
	"fmt"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/model/node"
	"berth/internal/wire"
)

// What one report of a node may hold: the servers keep all of it, each of them, for a node that may say anything.
const (
	mostEntries = 16_384
	mostUnknown = 4_096
	mostHolders = 1_024 // of a volume that are shown
	longestWord = 4_096 // of what the servers keep of an entry, a path or a sentence
	mostOfNode  = 4 << 20
)

// boundedNode refuses a registration that is larger than any machine's, in bytes as the servers keep it.
func boundedNode(n *node.Node) error {
	data, err := wire.Encode(n)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "register", fmt.Sprintf("node %q", n.ID))
	}
	if len(data) <= mostOfNode {
		return nil
	}
	return fault.WithHint(fault.New(fault.Invalid, "register", fmt.Sprintf("node %q", n.ID),
		fmt.Sprintf("it says %d bytes of itself, and at most %d are kept", len(data), mostOfNode)),
		"look at its meta, at what its plugins find, and at its orphans")
}

// bounded refuses a report that is larger than any node's that mounts what it was given. What is for people alone, and
// may be a plugin's own words, is cut.
func bounded(r *wire.InventoryReport) error {
	refuse := func(what string, n, most int) error {
		return fault.WithHint(fault.New(fault.Invalid, "take", "the report of a node's volumes",
			fmt.Sprintf("%s: %d, and at most %d are kept", what, n, most)),
			"look at what is mounted beneath the node's data_dir")
	}
	switch {
	case len(r.Entries) > mostEntries:
		return refuse("volumes", len(r.Entries), mostEntries)
	case len(r.Unknown) > mostUnknown:
		return refuse("mounts under no name", len(r.Unknown), mostUnknown)
	}
	for i := range r.Entries {
		e := &r.Entries[i]
		if n := len(e.Publications); n > mostEntries {
			return refuse("publications of a volume", n, mostEntries)
		}
		e.LastError, e.Step = cut(e.LastError), cut(e.Step)
		e.Holders = e.Holders[:min(mostHolders, len(e.Holders))]
		words := []string{string(e.Plugin), e.ExternalID, string(e.Volume.Namespace), string(e.Volume.ID), e.Provider}
		for j := range e.Publications {
			p := &e.Publications[j]
			words = append(words, string(p.Alloc), p.Path, p.Epoch.Incarnation, p.Received.Incarnation, p.Received.Mark)
		}
		for _, h := range e.Holders {
			words = append(words, h.Command, h.Namespace, string(h.Alloc), h.How)
		}
		if u := e.Undone; u != nil {
			words = append(words, string(u.Proof), u.Reason, u.By)
		}
		if n := longest(words...); n > longestWord {
			return refuse("letters of a word about a volume", n, longestWord)
		}
	}
	for _, u := range r.Unknown {
		if n := longest(u.Path, u.Dir, u.Device, u.FSType); n > longestWord {
			return refuse("letters of a word about a mount", n, longestWord)
		}
	}
	return nil
}

func cut(s string) string { return strings.ToValidUTF8(s[:min(longestWord, len(s))], "") }

func longest(words ...string) (n int) {
	for _, w := range words {
		n = max(n, len(w))
	}
	return n
}
