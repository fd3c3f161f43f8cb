package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/api"
)

// open begins a streamed reply.
func (r *rig) open(path string) *http.Response {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
	})
	return resp
}

// Given a task that has said something, when its log is followed, then its words come as frames, silence as
// heartbeats, and later words when they are said; then the reply ends as it should.
func TestALogIsFollowedWithHeartbeats(t *testing.T) {
	w := newWorld(t)
	resp := w.open("/v1/client/fs/logs/" + w.alloc + "?task=t&type=stdout&follow=true")
	dec := json.NewDecoder(resp.Body)
	var text string
	beats := 0
	for {
		var f api.StreamFrame
		if err := dec.Decode(&f); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if f.IsHeartbeat() {
			beats++
			continue
		}
		if text += string(f.Data); f.File != "alloc/logs/t.stdout.0" || f.Offset != int64(len(text)) {
			t.Errorf("the frame %+v after %q", f, text)
		}
	}
	if text != "hello\nlate\n" || beats == 0 || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%q with %d heartbeats as %s", text, beats, resp.Header.Get("Content-Type"))
	}
	plain := w.must("GET", "/v1/client/fs/logs/"+w.alloc+"?task=t&type=stderr&plain=true", nil)
	if string(plain.body) != "hello\n" || plain.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("plain: %q as %s", plain.body, plain.header.Get("Content-Type"))
	}
}

// Given a task that has said something, when its log is asked for from its end, then the last bytes come, as many as
// asked for; all of them when no number is asked for.
func TestALogIsReadFromItsEnd(t *testing.T) {
	w := newWorld(t)
	for query, want := range map[string]string{
		"&origin=end&offset=0":                `{"Offset":6,"Data":"aGVsbG8K","File":"alloc/logs/t.stdout.0"}`,
		"&origin=end":                         `{"Offset":6,"Data":"aGVsbG8K","File":"alloc/logs/t.stdout.0"}`,
		"&origin=end&offset=3":                `{"Offset":6,"Data":"bG8K","File":"alloc/logs/t.stdout.0"}`,
		"&origin=start&offset=0&plain=true":   "hello\n",
		"&origin=end&offset=0&plain=true":     "hello\n",
		"&origin=end&offset=99&plain=true":    "hello\n",
		"&origin=end&offset=1&plain=true":     "\n",
		"&plain=true&follow=false&origin=end": "hello\n",
	} {
		if a := w.must("GET", "/v1/client/fs/logs/"+w.alloc+"?task=t&type=stdout"+query, nil); string(a.body) != want {
			t.Errorf("%s: %q, want %q", query, a.body, want)
		}
	}
}

// Given a file of an alloc, when it is read whole, in part, from an offset to its end, and as a stream, then the bytes
// are those of the file.
func TestFilesAreRead(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]string{
		"cat/" + w.alloc + "?path=/alloc/data/readme":                      "0123456789",
		"readat/" + w.alloc + "?path=/alloc/data/readme&offset=2&limit=3":  "234",
		"readat/" + w.alloc + "?path=/alloc/data/readme&offset=7&limit=-1": "789",
		"readat/" + w.alloc + "?path=/alloc/data/readme&offset=99&limit=3": "",
		"stream/" + w.alloc +
			"?path=/alloc/data/readme&offset=8&follow=false": `{"Offset":10,"Data":"ODk=","File":"/alloc/data/readme"}`,
	} {
		if a := w.must("GET", "/v1/client/fs/"+path, nil); string(a.body) != want {
			t.Errorf("%s: %q, want %q", path, a.body, want)
		}
	}
	resp := w.open("/v1/client/fs/stream/" + w.alloc + "?path=/alloc/data/readme")
	var f api.StreamFrame
	if err := json.NewDecoder(resp.Body).Decode(&f); err != nil || string(f.Data) != "0123456789" {
		t.Errorf("the stream began with %+v, %v", f, err)
	}
}

func TestTheAgentsLogIsFollowed(t *testing.T) {
	r := newRig(t)
	for query, want := range map[string]string{"?plain=true": "one",
		"?plain=true&node_id=" + string(r.node.id.Node): "one"} {
		line, err := bufio.NewReader(r.open("/v1/agent/monitor" + query).Body).ReadString('\n')
		if err != nil || strings.TrimSpace(line) != want {
			t.Errorf("%s: %q, %v", query, line, err)
		}
	}
	var f api.StreamFrame
	if err := json.NewDecoder(r.open("/v1/agent/monitor?log_level=debug").Body).Decode(&f); err != nil ||
		string(f.Data) != "one\n" {
		t.Errorf("%+v, %v", f, err)
	}
}

// dial opens a command in a task.
func (w *world) dial(task, command string) *websocket.Conn {
	w.t.Helper()
	u := strings.Replace(w.url, "http", "ws", 1) + "/v1/client/allocation/" + w.alloc + "/exec?tty=true&task=" + task +
		"&command=" + url.QueryEscape(command)
	c, _, err := websocket.Dial(w.t.Context(), u, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

func send(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// Given a command that answers, when a person types, resizes and ends the input, then the answers come back, the exit
// code is the last message, and the connection ends in order.
func TestACommandInATaskSpeaksAndEnds(t *testing.T) {
	w := newWorld(t)
	c := w.dial("t", `["shout","loud"]`)
	send(t, c, `{}`)
	send(t, c, `{"stdin":{"data":"aGk="}}`)
	send(t, c, `{"tty_size":{"height":24,"width":80}}`)
	send(t, c, `{"stdin":{"close":true}}`)
	var said []string
	for {
		_, data, err := c.Read(t.Context())
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				t.Errorf("it ended with %v", err)
			}
			break
		}
		said = append(said, string(data))
	}
	want := []string{`{"stdout":{"data":"SEk="}}`, `{"stderr":{"data":"MjR4ODA="}}`, `{"stdout":{"close":true}}`,
		`{"stderr":{"close":true}}`, `{"exited":true,"result":{"exit_code":3}}`}
	if strings.Join(said, "\n") != strings.Join(want, "\n") {
		t.Errorf("it said\n%s", strings.Join(said, "\n"))
	}
}

// Given mistakes, when a command is opened, then the upgrade succeeds and the close frame says what is wrong.
func TestAMistakenCommandIsReportedInTheCloseFrame(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		task, command, say string
		code               websocket.StatusCode
		text               string
	}{
		{"t", `sh`, "", websocket.StatusPolicyViolation, "JSON list"},
		{"t", `[]`, "", websocket.StatusPolicyViolation, "JSON list"},
		{"nope", `["sh"]`, "", websocket.StatusPolicyViolation, `unknown task name "nope"`},
		{"t", `["missing"]`, "", websocket.StatusInternalError, "failed to start command: x"},
		{"t", `["shout"]`, "no json", websocket.StatusPolicyViolation, "no JSON"},
	} {
		conn := w.dial(c.task, c.command)
		if c.say != "" {
			send(t, conn, c.say)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, _, err := conn.Read(ctx)
		cancel()
		var closed websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != c.code || !strings.Contains(closed.Reason, c.text) {
			t.Errorf("%s %s: %v", c.task, c.command, err)
		}
	}
}
