package jobrules

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/artifact"
	"berth/internal/model/job"
)

// maxArtifacts is how many one task may have.
const maxArtifacts = 64

// canonicalArtifact fills in what an artifact leaves out. A single file lies under its own name.
func canonicalArtifact(a *api.TaskArtifact) {
	set(&a.GetterSource, "")
	set(&a.GetterMode, artifact.Any)
	set(&a.GetterInsecure, false)
	if a.RelativeDest != nil && *a.RelativeDest != "" {
		return
	}
	dest := "local/"
	if *a.GetterMode == artifact.File {
		if s, err := artifact.Parse(*a.GetterSource, a.GetterOptions); err == nil {
			if name, packed := s.Packed(); packed {
				dest += name
			} else if s.Sub != "" {
				dest += path.Base(s.Sub)
			} else {
				dest += s.Name
			}
		}
	}
	a.RelativeDest = &dest
}

func (c *checker) artifacts(at string, t *api.Task) {
	if n := len(t.Artifacts); n > maxArtifacts {
		c.addf("%s: it has %d artifacts, the bound is %d; pack several files into one archive", at, n, maxArtifacts)
	}
	for i, a := range t.Artifacts {
		if a == nil {
			continue
		}
		here := fmt.Sprintf("%s: artifact %d", at, i+1)
		c.zero(here, "destination", *a.RelativeDest)
		c.zero(here, "source", *a.GetterSource)
		c.pairs(here, "header", a.GetterHeaders)
		c.pairs(here, "option", a.GetterOptions)
		for name, value := range a.GetterHeaders {
			if name == "" || strings.ContainsAny(name+value, "\r\n") || strings.ContainsAny(name, " :") {
				c.addf("%s: header %q cannot be sent: its name has a space or a colon, or it has several lines", here,
					shorten(name))
			}
		}
		if slices.Contains(strings.Split(*a.RelativeDest, "/"), "..") {
			c.addf("%s: destination %q leaves the task's directory", here, shorten(*a.RelativeDest))
		} else if astray(*a) {
			c.addf("%s: destination %q is not in the task's directories; begin it with local/, secrets/ or alloc/",
				here, shorten(*a.RelativeDest))
		}
		if !slices.Contains(artifact.Modes, *a.GetterMode) {
			c.addf("%s: mode must be any, file or dir, is %q", here, shorten(*a.GetterMode))
			continue
		}
		c.source(here, a)
	}
}

// astray reports a destination beside the task's directories; a directory of theirs is one for what is a directory.
func astray(a api.TaskArtifact) bool {
	dest := *a.RelativeDest
	if *a.GetterMode != artifact.File {
		dest = path.Join(dest, "file")
	}
	return (&job.Template{DestPath: dest}).Astray()
}

// source refuses what no node can fetch. What is put together on the node is judged there.
func (c *checker) source(at string, a *api.TaskArtifact) {
	if *a.GetterSource == "" {
		c.addf("%s: missing source", at)
		return
	}
	options, later := map[string]string{}, strings.Contains(*a.GetterSource, "${")
	for name, value := range a.GetterOptions {
		if strings.Contains(name+value, "${") {
			later = true
		} else {
			options[name] = value
		}
	}
	s, err := artifact.Parse(unknowable(*a.GetterSource), options)
	if err != nil {
		if !strings.HasPrefix(*a.GetterSource, "${") {
			c.addf("%s: %w", at, err)
		}
		return
	}
	if err := s.Fits(*a.GetterMode); err != nil && !later {
		c.addf("%s: %w", at, err)
	}
}

// unknowable has a text of one letter in the place of what only the node knows.
func unknowable(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		_, after, closed := strings.Cut(rest, "}")
		b.WriteString(before)
		if !found || !closed {
			b.WriteString(strings.TrimPrefix(text, before))
			return b.String()
		}
		if query := strings.LastIndexAny(b.String(), "?&"); query >= 0 {
			return b.String()[:query] // what an option becomes is seen on the node
		}
		b.WriteString("x")
		text = after
	}
}

// canonicalFiles fills in what the further members of a template leave out.
func canonicalFiles(t *api.Template) {
	set(&t.SourcePath, "")
	if s := t.ChangeScript; s != nil {
		set(&s.Command, "")
		set(&s.Timeout, 5*time.Second)
		set(&s.FailOnError, false)
	}
	if w := t.Wait; w != nil {
		set(&w.Min, 0)
		set(&w.Max, 0)
		if *w.Max == 0 {
			*w.Max = 4 * *w.Min
		}
	}
}

// maxWait bounds how long a template may gather changes, and maxScript how long its script may run.
const maxWait, maxScript = 24 * time.Hour, time.Hour

// templateFiles checks the further members of a template.
func (c *checker) templateFiles(at string, t *api.Template) {
	switch source, text := *t.SourcePath, *t.EmbeddedTmpl; {
	case source == "" && text == "":
		c.addf("%s: write the text as data, or name a file of the task's directory as source", at)
	case source != "" && text != "":
		c.addf("%s: it has both source and data; leave one out", at)
	case source != "":
		c.zero(at, "source", source)
		if slices.Contains(strings.Split(source, "/"), "..") || (&job.Template{DestPath: source}).Astray() {
			c.addf("%s: source %q is no file in the task's directories; begin it with local/, secrets/ or alloc/, and "+
				"bring it there by an artifact", at, shorten(source))
		}
	}
	if *t.ChangeMode == job.ChangeModeScript {
		c.add(at, script(t.ChangeScript))
		if *t.Envvars {
			c.addf("%s: environment templates can't be updated by a script; use restart or noop", at)
		}
	} else if t.ChangeScript != nil {
		c.addf("%s: it has a change_script, and change_mode is %q; write change_mode = \"script\", or leave the block "+
			"out", at, *t.ChangeMode)
	}
	if w := t.Wait; w != nil && (*w.Min < 0 || *w.Max < *w.Min || *w.Max > maxWait) {
		c.addf("%s: wait: min %s and max %s: they must be 0 to %s, and max not less than min", at, *w.Min, *w.Max,
			maxWait)
	}
}

func script(s *api.ChangeScript) error {
	switch {
	case s == nil || *s.Command == "":
		return errors.New("change_mode \"script\" needs a change_script with a command")
	case *s.Timeout <= 0 || *s.Timeout > maxScript:
		return fmt.Errorf("change_script timeout %s: it must be more than 0, up to %s", *s.Timeout, maxScript)
	case slices.ContainsFunc(append([]string{*s.Command}, s.Args...), func(a string) bool {
		return strings.ContainsRune(a, 0)
	}):
		return errors.New("change_script command or args contain NUL")
	}
	return nil
}

func (c *checker) add(at string, err error) {
	if err != nil {
		c.addf("%s: %w", at, err)
	}
}
