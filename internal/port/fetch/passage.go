package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"berth/internal/base/fault"
)

// passage is whom git asks, and nobody else. It asks for git as it is asked for a file: the guard and the agent's
// proxies, certificates, redirects, and what the job says of headers are one matter for both. Git hears of no secret:
// neither the query of the source nor the user in it.
type passage struct {
	*fetching
	source *url.URL
	client *http.Client

	mu   sync.Mutex
	base *url.URL // where the repository lies: whoever was asked first may have named another place
	m    meter
	err  error // the first of what was in the way: git tells no more than a status
}

func (f *fetching) passage() (*passage, error) {
	source, err := url.Parse(f.Source.URL)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "", "it is no address")
	}
	source.Path, source.RawPath = strings.TrimSuffix(source.Path, "/"), strings.TrimSuffix(source.RawPath, "/")
	p := &passage{
		fetching: f,
		source:   source,
		client:   f.client(),
		base:     source,
		m:        meter{most: f.Bounds.Received, say: f.progress},
	}
	p.client.Transport = f.transport(0) // a server may pack for as long as it takes
	return p, nil
}

// address is what git is told to ask, by the passage as its proxy: without TLS, which the passage speaks.
func (p *passage) address() string {
	return (&url.URL{Scheme: "http", Host: p.source.Host, Path: p.source.Path, RawPath: p.source.RawPath}).String()
}

// ServeHTTP implements http.Handler.
func (p *passage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, err := p.target(r)
	if err == nil {
		err = p.pass(w, r, to)
	}
	if err != nil && r.Context().Err() == nil {
		http.Error(w, p.note(err).Error(), http.StatusForbidden)
	}
}

// target is where what git asks for lies: in the repository, or at the same host, where it may have a part of it.
func (p *passage) target(r *http.Request) (*url.URL, error) {
	if r.Method == http.MethodConnect || !strings.EqualFold(r.URL.Host, p.source.Host) {
		return nil, fault.WithHint(
			fault.New(fault.Denied, "", "", fmt.Sprintf("the repository has a part of itself at %q", r.Host)),
			"have it made whole where the source says")
	}
	p.mu.Lock()
	to := *p.base
	p.mu.Unlock()
	rest, within := strings.CutPrefix(r.URL.EscapedPath(), p.source.EscapedPath())
	at := to.EscapedPath() + rest
	if !within || !strings.HasPrefix(rest, "/") {
		to = *p.source
		at = r.URL.EscapedPath()
	}
	plain, err := url.PathUnescape(at)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "", "it is no address")
	}
	to.Path, to.RawPath = plain, at
	to.RawQuery = strings.Trim(to.RawQuery+"&"+r.URL.RawQuery, "&")
	return &to, nil
}

// passedOn are what git and whom it asks say to each other by headers.
var passedOn = []string{"Accept", "Accept-Encoding", "Cache-Control", "Content-Encoding", "Content-Type", "Expires",
	"Git-Protocol", "Pragma", "User-Agent"}

func copyHeaders(to, from http.Header) {
	for _, name := range passedOn {
		if values := from.Values(name); len(values) > 0 {
			to[name] = slices.Clone(values)
		}
	}
}

func (p *passage) pass(w http.ResponseWriter, r *http.Request, to *url.URL) error {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), r.Body)
	if err != nil {
		return fault.New(fault.Invalid, "", "", "it is no address")
	}
	if req.ContentLength = r.ContentLength; r.ContentLength == 0 {
		req.Body = http.NoBody
	}
	copyHeaders(req.Header, r.Header)
	p.tell(req, p.source)
	answer, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // read to its end, or given up
	p.follow(to, answer.Request.URL)
	copyHeaders(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(&flushed{w, http.NewResponseController(w)}, io.TeeReader(answer.Body, p)); err != nil {
		return err
	}
	return nil
}

// follow remembers where the repository lies when its list of references lay elsewhere, as git does.
func (p *passage) follow(asked, answered *url.URL) {
	const list = "/info/refs"
	at, is := strings.CutSuffix(answered.EscapedPath(), list)
	if *asked == *answered || !is || !strings.HasSuffix(asked.Path, list) {
		return
	}
	base := *answered
	plain, err := url.PathUnescape(at)
	if err != nil {
		return
	}
	base.Path, base.RawPath = plain, at
	query := slices.DeleteFunc(strings.Split(answered.RawQuery, "&"), func(pair string) bool {
		return strings.HasPrefix(pair, "service=") // git's own
	})
	base.RawQuery = strings.Join(query, "&")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.base = &base
}

// Write implements io.Writer: it counts what has come.
func (p *passage) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.m.Write(b)
}

// note keeps what was in the way.
func (p *passage) note(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err = asked(err); p.err == nil && !errors.Is(err, context.Canceled) {
		p.err = err
	}
	return err
}

func (p *passage) refused() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// flushed passes on what comes as it comes.
type flushed struct {
	to io.Writer
	by *http.ResponseController
}

func (f *flushed) Write(b []byte) (int, error) {
	n, err := f.to.Write(b)
	return n, errors.Join(err, f.by.Flush())
}
