package calls

import "net/http"

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

// Missing says that what is asked for does not exist.
func Missing(text string) error { return Refuse(http.StatusNotFound, text) }
