package acls

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/server/state"
)

// known makes sure that what a role or token names is there: a name that is written later would give what nobody meant.
func known(tx *state.Tx, subject string, policies, roles []string) error {
	var missing []string
	for _, name := range policies {
		if tx.ACLPolicy(nil, name) == nil {
			missing = append(missing, fmt.Sprintf("policy %q", name))
		}
	}
	for _, id := range roles {
		if tx.ACLRole(nil, id) == nil {
			missing = append(missing, fmt.Sprintf("role %q", id))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fault.WithHint(
		fault.New(fault.Invalid, "write", subject, "there is no "+strings.Join(missing, ", no ")),
		"write what is missing first, or leave it out")
}

// unique keeps the first of each name.
func unique(names []string) (out []string) {
	for _, name := range names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// below tells whether there are fewer than most.
func below[T any](all iter.Seq[T], most int) bool {
	n := 0
	for range all {
		if n++; n >= most {
			return false
		}
	}
	return true
}
