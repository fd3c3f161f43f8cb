// Package fault owns the identity of errors: a small set of kinds that keep their meaning across every hop,
// from a plugin's answer to an HTTP status. Every package may import it; nobody matches on error text.
package fault

import (
	"errors"
	"strings"
)

// Kind says what went wrong, coarse enough that a caller can act on it.
type Kind uint8

// The kinds. Their order is part of the encoded form: append only. A name that is taken and a bound on what callers keep
// are Invalid: the caller has to ask for something else, or make room, and to whoever watches a server it is no failure.
const (
	Internal    Kind = iota // a defect or an unforeseen answer
	NotFound                // the named object does not exist
	Invalid                 // the request can never succeed as it is
	Conflict                // the object's present state forbids it
	Busy                    // in use by somebody; will pass
	NotReady                // a prerequisite is awaited; waiting is not failing
	Denied                  // the principal may not do this
	Unavailable             // the other side cannot be reached
	Timeout                 // the end of the call is not known
	Exhausted               // a limit or a resource is used up
	Unsupported             // the other side does not offer this
	Canceled                // the caller withdrew the request
)

var kindNames = [...]string{"internal", "not found", "invalid", "conflict", "busy", "not ready", "denied",
	"unavailable", "timeout", "exhausted", "unsupported", "canceled"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Kinds lists every kind, for tables that must cover all of them.
func Kinds() []Kind {
	out := make([]Kind, len(kindNames))
	for i := range out {
		out[i] = Kind(i)
	}
	return out
}

// Error is an error with identity. Zero fields are left out of its text.
type Error struct {
	Kind    Kind
	Op      string // what was tried: "stage volume"
	Subject string // on which object: `volume "db"`
	Hint    string // what the reader can do about it, a whole sentence without the full stop
	Err     error  // the cause
}

func (e *Error) Error() string {
	var b strings.Builder
	part := func(s string) {
		if s == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(s)
	}
	switch {
	case e.Op != "" && e.Subject != "":
		part(e.Op + " " + e.Subject)
	default:
		part(e.Op)
		part(e.Subject)
	}
	if e.Err != nil {
		part(e.Err.Error())
	} else if b.Len() == 0 {
		part(e.Kind.String())
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Is lets errors.Is match on a bare kind: errors.Is(err, fault.NotFound.Err()).
func (e *Error) Is(target error) bool {
	k, ok := target.(kindError)
	return ok && e.Kind == Kind(k)
}

type kindError Kind

func (k kindError) Error() string { return Kind(k).String() }

// Err returns the sentinel of a kind, for errors.Is.
func (k Kind) Err() error { return kindError(k) }

// New makes an error of a kind with a text: fault.New(fault.Invalid, "register", `job "a"`, "the name is empty").
func New(k Kind, op, subject, text string) *Error {
	return &Error{Kind: k, Op: op, Subject: subject, Err: errors.New(text)}
}

// Wrap gives an existing error a kind, an operation and a subject. A nil error stays nil.
func Wrap(err error, k Kind, op, subject string) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: k, Op: op, Subject: subject, Err: err}
}

// Note adds an operation and a subject and keeps the kind that the error already has. A nil error stays nil.
func Note(err error, op, subject string) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: KindOf(err), Op: op, Subject: subject, Err: err}
}

// WithHint adds the way out and keeps kind and text. A nil error stays nil.
func WithHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: KindOf(err), Hint: hint, Err: err}
}

// KindOf tells the kind of the outermost fault in the chain; context errors have theirs; anything else is Internal.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	var k kindError
	if errors.As(err, &k) {
		return Kind(k)
	}
	return contextKind(err)
}

// Has reports whether err is of kind k. A nil error is of no kind.
func Has(err error, k Kind) bool { return err != nil && KindOf(err) == k }
