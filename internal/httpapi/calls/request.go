// Package calls owns what every handler of the API is made of: a request with what was read of it, how a call to the
// servers is made from it and its answer shown, and what is refused with which status. Only httpapi and its handlers
// import it.
package calls

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/bodies"
	"berth/internal/httpapi/params"
	"berth/internal/wire"
)

// Self is the agent that serves.
type Self interface {
	// NodeID is that of its node; empty: it runs none.
	NodeID() ids.Node
}

// Request is one HTTP request with what was read of it, and what its reply will say of indexes.
type Request struct {
	*http.Request
	Servers   wire.Conn
	Self      Self
	Namespace ids.Namespace
	Next      string // token of the next page

	meta   *wire.Meta
	chosen *wire.Page // what to cut out of a list of which this layer chooses what is shown; nil: servers cut it
}

// Arg is a parameter of the query; absent is empty.
func (r *Request) Arg(name string) string { return r.URL.Query().Get(name) }

// Flag is a parameter of the query that is there or not.
func (r *Request) Flag(name string) bool { return params.Flag(r.URL.Query(), name) }

// parsed makes a mistake in the parameters one of who asked.
func Parsed[T any](v T, err error) (T, error) {
	if err != nil {
		err = BadRequest(err.Error())
	}
	return v, err
}

// Number reads a whole number from the query; absent is 0.
func (r *Request) Number(name string) (int64, error) {
	return Parsed(params.Number(r.URL.Query(), name))
}

// Query reads the parameters that all reads share.
func (r *Request) Query() (wire.Query, error) {
	q, err := Parsed(params.Query(r.URL.Query()))
	q.Namespace = r.Namespace
	return q, err
}

// List is a read of a list. Servers cut its pages, unless this layer chooses among its items: by a filter, which sees
// the public shape, by the node pool that a path names, or by one of these parameters.
func (r *Request) List(choosing ...string) (wire.Query, error) {
	q, err := r.Query()
	if err != nil {
		return q, err
	}
	page, err := r.Page()
	here := r.PathValue("pool") != ""
	for _, name := range append(choosing, "filter") {
		here = here || r.Arg(name) != ""
	}
	if here {
		r.chosen = &page
	} else {
		q.Page = page
	}
	return q, err
}

// listBy is a read of a list among whose items this layer chooses by these parameters, too.
func ListBy(choosing ...string) func(*Request) (*wire.Query, error) {
	return func(r *Request) (*wire.Query, error) {
		q, err := r.List(choosing...)
		return &q, err
	}
}

// Whole is a read of everything of a kind.
func (r *Request) Whole() (*wire.Query, error) {
	q, err := r.Query()
	q.Prefix = ""
	return &q, err
}

// Page reads which part of a list is asked for.
func (r *Request) Page() (wire.Page, error) { return Parsed(params.Page(r.URL.Query())) }

// ReadOptional decodes a JSON body if there is one.
func (r *Request) ReadOptional(v any) error {
	if r.ContentLength == 0 {
		return nil
	}
	return r.Read(v)
}

// Read decodes a JSON body. Unknown members are ignored, as clients of this API expect; jobs are read strictly
// elsewhere.
func (r *Request) Read(v any) error {
	data, err := r.Bytes()
	if err != nil {
		return err
	}
	err = json.Unmarshal(data, v)
	var corrupt base64.CorruptInputError
	switch {
	case errors.As(err, &corrupt):
		return BadRequest(fmt.Sprintf("a member that holds bytes, as Payload does, is not base64 (RFC 4648, with "+
			"padding): byte %d of it is none of that", int64(corrupt)))
	case err != nil:
		return BadRequest(err.Error())
	}
	return nil
}

// Bytes reads the whole body, which may not be empty.
func (r *Request) Bytes() ([]byte, error) {
	data, err := bodies.Read(r.Context(), r.Body, r.ContentLength)
	switch {
	case err != nil:
		return nil, Unread(err)
	case len(data) == 0:
		return nil, BadRequest("the request has no body")
	}
	if err := params.Text(data); err != nil {
		return nil, BadRequest(err.Error())
	}
	return data, nil
}

// unread refuses a body that did not come to its end.
func Unread(err error) error {
	var tooLarge *http.MaxBytesError
	var tooMany *bodies.TooMany
	var judged *fault.Error
	switch {
	case errors.As(err, &tooLarge):
		return Refuse(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("the request's body is larger than %s", size(tooLarge.Limit)))
	case errors.As(err, &tooMany) && tooMany.OfAClient:
		return Refuse(http.StatusTooManyRequests, err.Error())
	case errors.As(err, &tooMany):
		return Refuse(http.StatusServiceUnavailable, err.Error())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Refuse(http.StatusRequestTimeout, "the request's body came too slowly; send it by a faster way")
	case errors.As(err, &judged):
		return err
	}
	return BadRequest("the request's body could not be read: " + err.Error())
}

// size says a number of bytes.
func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// Observed keeps the indexes of what was read, for the reply's header.
func (r *Request) Observed(m wire.Meta) { r.meta = &m }

// Written keeps the index of what was written.
func (r *Request) Written(index uint64) { r.Observed(wire.Meta{Index: index, KnownLeader: true}) }

// Indexes writes what was read into the reply's header. What was looked for and is not there has an index to wait on,
// too.
func (r *Request) Indexes(h http.Header) {
	if r.meta != nil {
		h.Set("X-Nomad-Index", strconv.FormatUint(max(r.meta.Index, 1), 10))
		h.Set("X-Nomad-KnownLeader", strconv.FormatBool(r.meta.KnownLeader))
		h.Set("X-Nomad-LastContact", strconv.FormatInt(r.meta.LastContact.Milliseconds(), 10))
	}
}

// None is the value of writes that answer with an empty body.
type None struct{}

// WholeID refuses what is no full id, with the text that clients know; lists take prefixes.
func WholeID(kind, id string) error {
	if !ids.IsUUID(id) {
		return fault.New(fault.Conflict, "", "", kind+" lookup failed: index error: UUID must be 36 characters")
	}
	return nil
}
