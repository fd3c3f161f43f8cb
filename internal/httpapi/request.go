package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/bodies"
	"berth/internal/httpapi/packed"
	"berth/internal/httpapi/params"
	"berth/internal/wire"
)

// request is one HTTP request with what was read of it, and what its reply will say of indexes.
type request struct {
	*http.Request
	server *Server
	ns     ids.Namespace
	meta   *wire.Meta
	chosen *wire.Page // what to cut out of a list of which this layer chooses what is shown; nil: servers cut it
	next   string     // token of the next page
}

func (r *request) arg(name string) string { return r.URL.Query().Get(name) }

func (r *request) flag(name string) bool { return params.Flag(r.URL.Query(), name) }

// parsed makes a mistake in the parameters one of who asked.
func parsed[T any](v T, err error) (T, error) {
	if err != nil {
		err = badRequest(err.Error())
	}
	return v, err
}

// number reads a whole number from the query; absent is 0.
func (r *request) number(name string) (int64, error) {
	return parsed(params.Number(r.URL.Query(), name))
}

// query reads the parameters that all reads share.
func (r *request) query() (wire.Query, error) {
	q, err := parsed(params.Query(r.URL.Query()))
	q.Namespace = r.ns
	return q, err
}

// list is a read of a list. Servers cut its pages, unless this layer chooses among its items: by a filter, which sees
// the public shape, by the node pool that a path names, or by one of these parameters.
func (r *request) list(choosing ...string) (wire.Query, error) {
	q, err := r.query()
	if err != nil {
		return q, err
	}
	page, err := r.page()
	here := r.PathValue("pool") != ""
	for _, name := range append(choosing, "filter") {
		here = here || r.arg(name) != ""
	}
	if here {
		r.chosen = &page
	} else {
		q.Page = page
	}
	return q, err
}

// listBy is a read of a list among whose items this layer chooses by these parameters, too.
func listBy(choosing ...string) func(*request) (*wire.Query, error) {
	return func(r *request) (*wire.Query, error) {
		q, err := r.list(choosing...)
		return &q, err
	}
}

// whole is a read of everything of a kind.
func (r *request) whole() (*wire.Query, error) {
	q, err := r.query()
	q.Prefix = ""
	return &q, err
}

// page reads which part of a list is asked for.
func (r *request) page() (wire.Page, error) { return parsed(params.Page(r.URL.Query())) }

// readOptional decodes a JSON body if there is one.
func (r *request) readOptional(v any) error {
	if r.ContentLength == 0 {
		return nil
	}
	return r.read(v)
}

// read decodes a JSON body. Unknown members are ignored, as clients of this API expect; jobs are read strictly
// elsewhere.
func (r *request) read(v any) error {
	data, err := r.body()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return badRequest(err.Error())
	}
	return nil
}

func (r *request) body() ([]byte, error) {
	data, err := bodies.Read(r.Context(), r.Body, r.ContentLength)
	switch {
	case err != nil:
		return nil, unread(err)
	case len(data) == 0:
		return nil, badRequest("the request has no body")
	}
	if err := params.Text(data); err != nil {
		return nil, badRequest(err.Error())
	}
	return data, nil
}

// unread refuses a body that did not come to its end.
func unread(err error) error {
	var tooLarge *http.MaxBytesError
	var tooMany *bodies.TooMany
	var judged *fault.Error
	switch {
	case errors.As(err, &tooLarge):
		return &statusError{http.StatusRequestEntityTooLarge,
			fmt.Sprintf("the request's body is larger than %s", size(tooLarge.Limit))}
	case errors.As(err, &tooMany) && tooMany.OfAClient:
		return &statusError{http.StatusTooManyRequests, err.Error()}
	case errors.As(err, &tooMany):
		return &statusError{http.StatusServiceUnavailable, err.Error()}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &statusError{http.StatusRequestTimeout, "the request's body came too slowly; send it by a faster way"}
	case errors.As(err, &judged):
		return err
	}
	return badRequest("the request's body could not be read: " + err.Error())
}

// size says a number of bytes.
func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// observed keeps the indexes of what was read, for the reply's header.
func (r *request) observed(m wire.Meta) { r.meta = &m }

// written keeps the index of what was written.
func (r *request) written(index uint64) { r.observed(wire.Meta{Index: index, KnownLeader: true}) }

// indexes writes what was read into the reply's header. What was looked for and is not there has an index to wait on,
// too.
func (r *request) indexes(h http.Header) {
	if r.meta != nil {
		h.Set("X-Nomad-Index", strconv.FormatUint(max(r.meta.Index, 1), 10))
		h.Set("X-Nomad-KnownLeader", strconv.FormatBool(r.meta.KnownLeader))
		h.Set("X-Nomad-LastContact", strconv.FormatInt(r.meta.LastContact.Milliseconds(), 10))
	}
}

// reply writes a value as JSON with the headers that clients read. A noReply is an empty 200.
func (s *Server) reply(w http.ResponseWriter, r *request, v any) {
	h := w.Header()
	r.indexes(h)
	if r.next != "" {
		h.Set("X-Nomad-NextToken", r.next)
	}
	if _, ok := v.(noReply); ok {
		return
	}
	_, pretty := r.URL.Query()["pretty"]
	zip := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	if err := packed.JSON(w, v, zip, pretty); err != nil && r.Context().Err() == nil {
		s.cfg.Log.Error("a reply could not be encoded", "path", r.URL.Path, "error", err)
	}
}

// noReply is the value of writes that answer with an empty body.
type noReply struct{}
