package render

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"berth/internal/base/confined"
	"berth/internal/base/fault"
)

// Work is the rendering of one template: a language with loops and functions that multiply what they are given.
var Work = confined.Work{
	Role:    "berth-template",
	Verb:    "render",
	Object:  "the template",
	Doing:   "rendering it",
	Process: "the rendering of a template",
	Result:  "what it renders",
	Smaller: "write it with fewer or smaller loops",
	CPU:     2 * time.Second,
	Wall:    20 * time.Second,
	Memory:  256 << 20,
	Output:  MaxOutput + maxHeader,
}

// maxHeader bounds the line before a rendering in which a child says what it reads, in bytes.
const maxHeader = 64 << 10

// atOnce is how many templates of a node are rendered at a time; the memory of all is within the bound of one times
// this.
const atOnce = 2

// Renderer renders templates in children: what a template's author asks for costs the agent nothing but the wait.
type Renderer struct{ turns chan struct{} }

// NewRenderer returns a renderer. It starts nothing.
func NewRenderer() *Renderer { return &Renderer{turns: make(chan struct{}, atOnce)} }

// request is what a child is asked. Texts are bytes: what a template decodes, and others read as a variable, need not
// be UTF-8, which JSON would make of it.
type request struct {
	Template  Template
	Text      []byte
	Variables []variable
	Known     []knowledge
}

// knowledge is a source with what the servers have said of it.
type knowledge struct {
	Source Source
	Text   []byte
}

type variable struct{ Name, Value []byte }

// Render renders a template in a child that ends with ctx. A fault of kind Invalid is the author's: the template has
// problems, or rendering it passes a bound.
func (r *Renderer) Render(
	ctx context.Context, t Template, vars map[string]string, known Known,
) (*Rendering, error) {
	if err := bounded(t); err != nil {
		return nil, err
	}
	if !strings.Contains(t.Text, t.left()) {
		return &Rendering{Data: []byte(t.Text)}, nil // it asks for nothing
	}
	req := request{Template: t, Text: []byte(t.Text)}
	req.Template.Text = ""
	for k, v := range vars {
		req.Variables = append(req.Variables, variable{[]byte(k), []byte(v)})
	}
	for s, text := range known {
		req.Known = append(req.Known, knowledge{s, []byte(text)})
	}
	input, err := json.Marshal(&req)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "encode", t.Name)
	}
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	work := Work
	work.Object = t.Name
	out, err := work.Run(ctx, input)
	if err != nil {
		return nil, err
	}
	header, data, _ := bytes.Cut(out, []byte("\n"))
	rendered := &Rendering{Data: data}
	return rendered, fault.Wrap(json.Unmarshal(header, rendered), fault.Internal, "read", t.Name)
}

// Main is the child.
func Main(in io.Reader, out io.Writer) int {
	return Work.Main(in, out, func(data []byte) ([]byte, error) {
		req := &request{}
		if err := json.Unmarshal(data, req); err != nil {
			return nil, fault.Wrap(err, fault.Internal, "read", "what to render")
		}
		vars := make(map[string]string, len(req.Variables))
		for _, v := range req.Variables {
			vars[string(v.Name)] = string(v.Value)
		}
		req.Template.Text = string(req.Text)
		known := Known{}
		for _, k := range req.Known {
			known[k.Source] = string(k.Text)
		}
		out, err := Execute(req.Template, Values{
			Env:   func(name string) string { return vars[name] },
			Known: known,
		})
		if err != nil {
			return nil, err
		}
		header, err := json.Marshal(out)
		return append(append(header, '\n'), out.Data...), err
	})
}
