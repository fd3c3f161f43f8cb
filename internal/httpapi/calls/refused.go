package calls

import (
	"context"
	"errors"
	"net/http"

	"berth/internal/base/fault"
)

// Refused is an error whose status and text clients rely on.
type Refused struct {
	Status int
	Text   string
}

func (e *Refused) Error() string { return e.Text }

// Refuse answers with a status and a text.
func Refuse(status int, text string) error { return &Refused{Status: status, Text: text} }

// BadRequest is a mistake of who asks.
func BadRequest(text string) error { return Refuse(http.StatusBadRequest, text) }

// errStops fits into a close frame.
var errStops = fault.WithHint(fault.Wrap(errors.New("this agent stops"), fault.Unavailable, "", ""),
	"what was to be changed may be done or not: look before you ask again")

// Ended is why a request failed, for who waits for its answer. When its context was canceled and somebody is there to
// read the answer, then it was not the client that has ended it.
func Ended(ctx context.Context, err error) error {
	if fault.Has(err, fault.Canceled) && errors.Is(ctx.Err(), context.Canceled) {
		return errStops
	}
	return err
}

// Missing says that what is asked for does not exist.
func Missing(text string) error { return Refuse(http.StatusNotFound, text) }
