package httpapi

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/ids"
	"berth/internal/httpapi/page"
	"berth/internal/wire"
)

// request is one HTTP request with what was read of it, and what its reply will say of indexes.
type request struct {
	*http.Request
	ns   ids.Namespace
	meta *wire.Meta
	next string // token of the next page
}

func namespaceOf(r *http.Request) ids.Namespace {
	if ns := r.URL.Query().Get("namespace"); ns != "" {
		return ids.Namespace(ns)
	}
	return ids.DefaultNamespace
}

func (r *request) arg(name string) string { return r.URL.Query().Get(name) }

func (r *request) flag(name string) bool {
	v := r.arg(name)
	b, err := strconv.ParseBool(v)
	return err == nil && b
}

// query reads the parameters that all reads share. Filters, order and pages are applied here and not by the servers:
// filters see the public shape.
func (r *request) query() (wire.Query, error) {
	q := wire.Query{Namespace: r.ns, Prefix: r.arg("prefix")}
	if v := r.arg("index"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return q, badRequest("Invalid index")
		}
		q.MinIndex = n
	}
	if v := r.arg("wait"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			return q, badRequest("Invalid wait time")
		}
		q.Wait = d
	}
	if v, ok := r.URL.Query()["stale"]; ok {
		if v[0] != "" {
			if _, err := strconv.ParseBool(v[0]); err != nil {
				return q, badRequest(fmt.Sprintf("Failed to parse value of %q (%v) as a bool: %s", "stale", v[0], err))
			}
		}
		q.Stale = true
	}
	return q, nil
}

// read decodes a JSON body. Unknown members are ignored, as clients of this API expect; jobs are read strictly elsewhere.
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
	data, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &statusError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request's body is larger than %d MiB", maxBody>>20)}
	case err != nil:
		return nil, badRequest("the request's body could not be read: " + err.Error())
	case len(data) == 0:
		return nil, badRequest("the request has no body")
	}
	return data, nil
}

// seen notes the indexes of what was read, for the reply's header.
func (r *request) seen(m wire.Meta) { r.meta = &m }

// reply writes a value as JSON with the headers that clients read. A nil value that is a noReply is an empty 200.
func (s *Server) reply(w http.ResponseWriter, r *request, v any) {
	h := w.Header()
	if r.meta != nil {
		h.Set("X-Nomad-Index", strconv.FormatUint(max(r.meta.Index, 1), 10))
		h.Set("X-Nomad-KnownLeader", strconv.FormatBool(r.meta.KnownLeader))
		h.Set("X-Nomad-LastContact", strconv.FormatInt(r.meta.LastContact.Milliseconds(), 10))
	}
	if r.next != "" {
		h.Set("X-Nomad-NextToken", r.next)
	}
	if _, ok := v.(noReply); ok {
		return
	}
	h.Set("Content-Type", "application/json")
	out := io.Writer(w)
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		out = z
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if _, pretty := r.URL.Query()["pretty"]; pretty {
		enc.SetIndent("", "    ")
	}
	if err := enc.Encode(v); err != nil && r.Context().Err() == nil {
		s.cfg.Log.Error("a reply could not be encoded", "path", r.URL.Path, "error", err)
	}
}

// noReply is the value of writes that answer with an empty body.
type noReply struct{}

// listed filters, orders and pages a list. full is what a filter sees, key the place of an object in pages; the list comes
// in the order of keys.
func listed[T any](r *request, items []T, full func(T) any, key func(T) string) ([]T, error) {
	ask := page.Query{Filter: r.arg("filter"), Reverse: r.flag("reverse"), PerPage: r.arg("per_page"), Token: r.arg("next_token")}
	shown, next, err := page.Of(ask, items, full, key)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	r.next = next
	return shown, nil
}
