package trust

import (
	"cmp"
	"fmt"
	"time"

	"berth/internal/base/fault"
)

// Denial is a person's word that a node is let in no more.
type Denial struct {
	Since  time.Time
	By     string // as the API knows them
	Reason string
	Name   string // of the node, then
}

// refuse is why the node of an id is not let in.
func (d *Denial) refuse(id string) error {
	return &fault.Error{
		Kind:    fault.Denied,
		Op:      "let in",
		Subject: Principal{Role: Node, ID: id}.String(),
		Err: fmt.Errorf("it is denied since %s, said %s: %s", d.Since.UTC().Format(time.RFC3339),
			cmp.Or(d.By, "a person"), d.Reason),
		Hint: "let it in again where a server is: berth node allow -reason … " + id,
	}
}
