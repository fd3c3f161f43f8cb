package audit

import (
	"cmp"
	"fmt"
	"net/http"

	"berth/internal/base/fault"
)

// writer writes the end of a request into the record before the answer begins.
type writer struct {
	http.ResponseWriter
	rec    *Record
	begun  bool
	silent bool // the answer was replaced
}

// Under is the writer below the one that records. The program's HTTP server knows its own by their type.
func Under(w http.ResponseWriter) http.ResponseWriter {
	if aw, is := w.(*writer); is {
		return aw.ResponseWriter
	}
	return w
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	informs := status < http.StatusOK && status != http.StatusSwitchingProtocols
	if w.begun || informs {
		if !w.silent {
			w.ResponseWriter.WriteHeader(status)
		}
		return
	}
	w.begun = true
	if w.rec.session && status == http.StatusSwitchingProtocols {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	if err := w.rec.end(status); err != nil {
		w.rec.log.lost(&w.rec.line, err)
		w.replace(fault.Note(err, "record", fmt.Sprintf("the request, which ended with status %d", status)))
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// replace answers that the request is not recorded instead of what is not to be told before it is.
func (w *writer) replace(err error) {
	w.silent = true
	h := w.Header()
	for name := range h {
		h.Del(name)
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	w.ResponseWriter.WriteHeader(http.StatusInternalServerError)
	_, _ = w.ResponseWriter.Write([]byte(err.Error())) // nobody is there to be told
}

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.silent {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// finish writes what has no answer: one that is empty, that of a session, and that of a client which has gone.
func (w *writer) finish(gone bool) {
	switch {
	case w.begun && w.rec.session:
		if err := w.rec.end(cmp.Or(w.rec.failed, http.StatusSwitchingProtocols)); err != nil {
			w.rec.log.lost(&w.rec.line, err)
		}
	case !w.begun && gone:
		if err := w.rec.end(0); err != nil {
			w.rec.log.lost(&w.rec.line, err)
		}
	case !w.begun:
		w.WriteHeader(http.StatusOK)
	}
}
