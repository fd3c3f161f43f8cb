package api

import (
	"fmt"
	"log/slog"
)

// String hides the values.
func (s Secrets) String() string { return fmt.Sprintf("*** (%d values)", len(s)) }

// GoString hides the values.
func (s Secrets) GoString() string { return s.String() }

// Format hides the values from every verb.
func (s Secrets) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// LogValue hides the values from logs.
func (s Secrets) LogValue() slog.Value { return slog.StringValue(s.String()) }
