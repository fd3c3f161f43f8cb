// Package proxy owns the recording, fault-injecting proxy that stands between an orchestrator and a CSI plugin: as the
// plugin's task it listens where the plugin should, runs the real plugin behind it, writes down every call, and breaks
// what its rules say. Tests import it, mostly through csitest, and its own program csi-proxy; nothing that ships with
// berth does.
package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

// Kind says what an entry of the record tells.
type Kind string

// The kinds of entries.
const (
	CallBegins   Kind = "begin"        // a call arrived
	CallEnds     Kind = "end"          // its answer leaves
	PluginStarts Kind = "plugin-start" // a run of the plugin begins
	PluginEnds   Kind = "plugin-end"   // it has ended; calls under way are broken off
	Marked       Kind = "mark"         // a fact that only the test knows
)

// Mark names a fact that a test adds to the record.
type Mark string

// The marks.
const (
	CallerCrashed Mark = "caller-crashed" // the caller lost its memory of calls under way; Caller names it, empty: all
	// something changed that allows an earlier retry; Volume names the object, empty: all
	SomethingNew Mark = "event"
	Fenced       Mark = "fenced"      // there is proof that Node cannot write to Volume any more
	MountsLost   Mark = "mounts-lost" // all mounts of the plugin on Node are gone
	Rebooted     Mark = "rebooted"    // the node is in another boot: everything on it is uncertain
)

// Entry is one line of the record.
type Entry struct {
	Time     time.Time `json:"time"`
	Kind     Kind      `json:"kind"`
	Proxy    string    `json:"proxy,omitempty"`  // which proxy wrote it
	Run      int       `json:"run,omitempty"`    // which run of its plugin
	Plugin   string    `json:"plugin,omitempty"` // plugin id
	PID      int       `json:"pid,omitempty"`    // of the plugin's process, in its start
	Call     string    `json:"call,omitempty"`   // joins begin and end
	RPC      string    `json:"rpc,omitempty"`
	Volume   string    `json:"volume,omitempty"` // volume id; the name for CreateVolume, the source for snapshots
	Node     string    `json:"node,omitempty"`   // storage node id: the one named, or the plugin's own in node calls
	Staging  string    `json:"staging,omitempty"`
	Target   string    `json:"target,omitempty"`
	Object   string    `json:"object,omitempty"` // name or id of a snapshot or group
	Hash     string    `json:"hash,omitempty"`   // of the arguments without secrets
	Fields   []string  `json:"fields,omitempty"` // top-level fields that were set
	Mode     string    `json:"mode,omitempty"`   // access mode as the specification spells it
	Source   string    `json:"source,omitempty"` // source volume of a clone
	Code     string    `json:"code,omitempty"`
	Message  string    `json:"message,omitempty"`
	Injected string    `json:"injected,omitempty"` // the rule that changed the course
	Reached  bool      `json:"reached,omitempty"`  // the plugin got the call

	Secrets int          `json:"secrets,omitempty"` // bytes of the secrets in the request, keys and values
	Seen    *Observation `json:"seen,omitempty"`    // by the witness, at the begin of a call that can change something

	Request json.RawMessage `json:"request,omitempty"` // secrets masked
	Answer  json.RawMessage `json:"answer,omitempty"`

	Mark   Mark   `json:"mark,omitempty"`
	Caller string `json:"caller,omitempty"`
	Text   string `json:"text,omitempty"`
}

// String is an entry as a person reads it in a failed test.
func (e Entry) String() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %-12s", e.Time.UTC().Format("15:04:05.000"), e.Kind)
	for _, part := range []struct{ name, value string }{{"", e.RPC}, {"", string(e.Mark)}, {"volume=", e.Volume},
		{"node=", e.Node}, {"staging=", e.Staging},
		{"target=", e.Target}, {"object=", e.Object}, {"code=", e.Code}, {"rule=", e.Injected}, {"", e.Text}, {"",
			e.Message}} {
		if part.value != "" {
			b.WriteString(" " + part.name + part.value)
		}
	}
	if e.Proxy != "" {
		b.WriteString(" [" + e.Proxy + "/" + strconv.Itoa(e.Run) + "]")
	}
	return b.String()
}

// recorder appends entries to a file. Each is one write on a descriptor opened for appending, so that several proxies
// and the test itself may share the file.
type recorder struct {
	mu   sync.Mutex
	file *os.File
}

func openRecorder(path string) (*recorder, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the record of CSI calls: %w", err)
	}
	return &recorder{file: f}, nil
}

// write stamps and appends one entry. The stamp is taken under the lock: the file's order is the order of the stamps.
func (r *recorder) write(e Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Time = time.Now()
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write the record of CSI calls: %w", err)
	}
	if _, err := r.file.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write the record of CSI calls: %w", err)
	}
	return nil
}

func (r *recorder) close() error { return r.file.Close() }

// AppendMark adds a fact to a record.
func AppendMark(path string, e Entry) error {
	r, err := openRecorder(path)
	if err != nil {
		return err
	}
	e.Kind = Marked
	return errors.Join(r.write(e), r.close())
}

// ReadRecord reads a record. A last line without its end is left out: its writer was killed in the middle of it.
func ReadRecord(path string) ([]Entry, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeRecord(bytes.NewReader(b))
}

func decodeRecord(r io.Reader) ([]Entry, error) {
	var out []Entry
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d of the record of CSI calls: %w", n, err)
		}
		out = append(out, e)
	}
}
