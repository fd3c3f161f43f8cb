package audit

import (
	"fmt"
	"net/http"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

// Deed is a call to the servers that did not come by the HTTP surface of this agent: another one passed it on, which
// may keep a record or none.
type Deed struct {
	Who       string // as far as it is known where the call came in
	Known     bool   // whether it is: what strangers are refused has a file of its own
	From      string // who passed it on
	What      string // the method
	Namespace ids.Namespace
	Object    string
}

// Deed writes that a call is about to be made. The error says that it cannot be recorded, and so must not be made; end
// writes how it ended, and its error says that the caller must not hear of a success.
func (l *Log) Deed(d Deed) (end func(error) error, err error) {
	rec := &Record{
		log:   l,
		begun: time.Now(),
		line: Line{
			Request:   ids.New(),
			Who:       clipped(d.Who),
			From:      clipped(d.From),
			What:      clipped(d.What),
			Namespace: clipped(string(d.Namespace)),
			Object:    clipped(d.Object),
		},
		always: true,
		known:  d.Known,
	}
	if err := rec.received(); err != nil {
		return nil, err
	}
	return func(failed error) error {
		status := statusOf(failed)
		if failed != nil {
			rec.Failed(failed, status)
		}
		err := rec.end(status)
		if err != nil {
			l.lost(&rec.line, err)
		}
		return fault.Note(err, "record", fmt.Sprintf("the call, which ended with status %d", status))
	}, nil
}

// statusOf is what the HTTP surface would have answered, as far as the record tells ends apart.
func statusOf(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case fault.Has(err, fault.Denied):
		return http.StatusForbidden
	case fault.Has(err, fault.Invalid):
		return http.StatusBadRequest
	case fault.Has(err, fault.NotFound):
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}
