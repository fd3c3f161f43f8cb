// Package absent owns what is answered where this API has a path and Berth has nothing behind it yet: that it is not
// built and what to do instead, or what this API has always said in that case. Only httpapi imports it.
package absent

import (
	"net/http"
	"strings"
)

// Answer is the one answer to a method and path.
type Answer struct {
	Method, Path string
	Status       int
	Text         string
}

// Answers lists all of them. A path that is neither here nor served does not exist.
func Answers() (out []Answer) {
	for _, u := range unbuilt {
		for method := range strings.FieldsSeq(u.methods) {
			out = append(out, Answer{method, u.path, http.StatusNotImplemented, u.what})
		}
	}
	for _, e := range enterprise {
		method, path, _ := strings.Cut(e, " ")
		out = append(out, Answer{method, path, http.StatusNotImplemented, "Nomad Enterprise only endpoint"})
	}
	return out
}

// UI answers for the pages for people.
func UI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(
		[]byte("<!doctype html><title>Berth</title><p>This agent serves no web pages. Use the command line: " +
			"<code>berth status</code>.\n"))
}

// Serve answers by the mux, and what it does not know as clients of this API expect: with 405 where another verb is
// known, with 404 and no words otherwise.
func Serve(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	_, pattern := mux.Handler(r)
	if pattern != "" && r.Method != http.MethodHead || !strings.HasPrefix(r.URL.Path, "/") {
		mux.ServeHTTP(w, r)
		return
	}
	for _, m := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = m
		if _, p := mux.Handler(probe); p != "" {
			http.Error(w, "Invalid method", http.StatusMethodNotAllowed)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}
