package audit

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/access"
)

// Stages of a request.
const (
	Received = "received" // it is about to be done
	Complete = "complete" // it is about to be answered
)

// Line is one line of the record. It has no header, no query and no body: secrets stand there.
type Line struct {
	Time    time.Time `json:"time"`
	Stage   string    `json:"stage"`
	Request string    `json:"request"` // the lines of one request have the same
	Who     string    `json:"who"`     // empty: nobody was admitted
	From    string    `json:"from"`    // a user of the socket, or an address
	// What is the method and the route; the path, where there is no route.
	What      string  `json:"what"`
	Namespace string  `json:"namespace,omitempty"`
	Object    string  `json:"object,omitempty"`
	Task      string  `json:"task,omitempty"`
	Status    int     `json:"status,omitempty"` // of the answer; 0 of a complete request: nobody was there to read one
	Reason    string  `json:"reason,omitempty"` // of what was not done
	Took      float64 `json:"took_ms,omitempty"`
}

// Record is what is recorded of one request.
type Record struct {
	log      *Log
	line     Line
	begun    time.Time
	always   bool // recorded however it ends
	session  bool // it ends with its handler, not with its header
	known    bool // for whom it is
	failed   int  // the status that says how it failed
	complete bool
}

type recordKey struct{}

func with(ctx context.Context, rec *Record) context.Context {
	return context.WithValue(ctx, recordKey{}, rec)
}

// Of is the record of a request, nil if there is none. All of its methods take that.
func Of(ctx context.Context) *Record {
	rec, _ := ctx.Value(recordKey{}).(*Record)
	return rec
}

// maxText bounds what a client writes of a line, in bytes as they stand there.
const maxText = 512

func clipped(s string) string {
	n := 0
	for i, c := range s {
		if n += written(c); n > maxText {
			return strings.ToValidUTF8(s[:i], "") + "…"
		}
	}
	return s
}

// written is how many bytes a character takes in a JSON text.
func written(c rune) int {
	switch {
	case c < ' ', strings.ContainsRune("<>&\u007f\u2028\u2029", c), c == utf8.RuneError:
		return len(`\u0000`)
	case c == '"', c == '\\':
		return 2
	}
	return utf8.RuneLen(c)
}

func begin(l *Log, r *http.Request) *Record {
	return &Record{
		log:   l,
		begun: time.Now(),
		line: Line{
			Request: ids.New(),
			From:    access.Peer(r),
			What:    clipped(r.Method + " " + r.URL.Path),
		},
		always: l.cfg.Reads || r.Method != http.MethodGet && r.Method != http.MethodHead,
	}
}

// For notes for whom the request is, and whether that is known.
func (rec *Record) For(who string, known bool) {
	if rec != nil {
		rec.line.Who = who
		rec.known = known
	}
}

// About notes what the request is about, where its body says so. A body may name several.
func (rec *Record) About(ns ids.Namespace, object string) {
	if rec == nil {
		return
	}
	rec.line.Namespace = clipped(string(ns))
	switch had := rec.line.Object; had {
	case "", object:
		rec.line.Object = clipped(object)
	default:
		rec.line.Object = clipped(had + " " + object)
	}
}

// Failed notes why the request is not done. What is wrong with a body is left out: it may quote the body.
func (rec *Record) Failed(err error, status int) {
	if rec == nil {
		return
	}
	rec.failed = status
	if status != http.StatusBadRequest {
		rec.line.Reason = clipped(err.Error())
	}
}

// Made notes what a request has made that its path does not name.
func (rec *Record) Made(answer any) {
	if rec == nil || rec.line.Object != "" {
		return
	}
	switch a := answer.(type) {
	case *api.ACLToken:
		rec.line.Object = a.AccessorID
	case *api.ACLRole:
		rec.line.Object = a.ID
	}
}

// Begin notes the route of a request, and writes that it is about to be done, if it changes something or shows what is
// in tasks. The error says that it cannot be recorded, and so must not be done.
func (rec *Record) Begin(r *http.Request, route string, kind Kind, ns ids.Namespace) error {
	if rec == nil {
		return nil
	}
	rec.line.What = route
	rec.line.Namespace, rec.line.Object = clipped(string(ns)), clipped(named(r))
	rec.line.Task = clipped(r.URL.Query().Get("task"))
	switch {
	case kind == Session:
		rec.always, rec.session = true, true
	case kind == Recorded:
		rec.always = true
	case kind == Read || r.Method == http.MethodGet:
		rec.always = rec.log.cfg.Reads
		return nil
	}
	return rec.received()
}

// Shown notes whose session it is, where its first message says so.
func (rec *Record) Shown(who string, known bool) error {
	if rec == nil {
		return nil
	}
	rec.For(who, known)
	return rec.received()
}

func (rec *Record) received() error {
	err := rec.write(Received)
	if err != nil {
		rec.complete = true // what is not begun has no end
		rec.log.lost(&rec.line, err)
	}
	return fault.Note(err, "record", "the request, which is therefore not done")
}

// named is what a path names, and a query that is about a snapshot, a node or a server.
func named(r *http.Request) string {
	var out []string
	for _, part := range []string{"id", "name", "pool", "alloc"} {
		if v := r.PathValue(part); v != "" {
			out = append(out, v)
		}
	}
	for _, part := range []string{"snapshot_id", "node", "id", "address"} {
		if v := r.URL.Query().Get(part); v != "" {
			out = append(out, v)
		}
	}
	return strings.Join(out, " ")
}

func (rec *Record) write(stage string) error {
	rec.line.Time, rec.line.Stage = time.Now().UTC(), stage
	return rec.place().write(&rec.line)
}

// place is the file that a line goes to. What was done stands in the record, whoever asked for it: only what is not, or
// not yet, of callers whom nobody knows has a file of its own.
func (rec *Record) place() *Log {
	failed := cmp.Or(rec.line.Status, rec.failed) >= http.StatusBadRequest
	if !rec.known && (failed || rec.line.Stage == Received) {
		return rec.log.ofStrangers()
	}
	return rec.log
}

// end writes how the request ends, if that is to be recorded.
func (rec *Record) end(status int) error {
	refused := status == http.StatusForbidden || status == http.StatusUnauthorized
	if rec.complete || !rec.always && !refused {
		return nil
	}
	rec.complete = true
	rec.line.Status = status
	rec.line.Took = float64(time.Since(rec.begun).Microseconds()) / 1000
	return rec.write(Complete)
}
