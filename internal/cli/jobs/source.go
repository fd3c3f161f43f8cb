package jobs

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
	"berth/jobspec"
)

// source reads a job file as the flags say.
type source struct {
	env      *kit.Env
	json     bool
	strict   bool
	vars     []string
	varFiles []string
}

func (s *source) addTo(cmd *kit.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&s.json, "json", false, "the file is a job in JSON (it is recognised without this too)")
	fs.BoolVar(&s.strict, "hcl2-strict", true, "refuse values of variables that the file does not declare")
	fs.Var((*kit.Strings)(&s.vars), "var", "give a variable of the file a value: `name=value`; may come again")
	fs.Var((*kit.Strings)(&s.varFiles), "var-file", "`file` of values of variables; may come again")
}

// parsed is a job with what it was made of.
type parsed struct {
	job        *api.Job
	submission *api.JobSubmission
	config     jobspec.ParseConfig
}

// read parses the file, or the standard input when it is named -. What is not built yet is left to the server, which
// may be newer than this program.
func (s *source) read(name string) (*parsed, error) {
	text, shown, err := s.env.ReadFile(name, "file", jobspec.MaxSource+1)
	if err != nil {
		return nil, err
	}
	cfg := jobspec.ParseConfig{
		Path:               shown,
		Source:             text,
		Vars:               map[string]string{},
		Env:                s.environ(),
		Strict:             s.strict,
		AllowFileFunctions: true,
		AnyFeature:         true,
	}
	sub := &api.JobSubmission{Source: string(text), Format: "hcl2", VariableFlags: cfg.Vars}
	switch {
	case strings.HasPrefix(strings.TrimSpace(string(text)), "{"):
		sub.Format = "json"
	case s.json:
		return nil, kit.Fail(fault.Invalid, "leave -json out: files are known by how they begin", "%s is not JSON",
			shown)
	}
	for _, v := range s.vars {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return nil, kit.Fail(fault.Invalid, "", "-var %q is not of the form name=value", v)
		}
		cfg.Vars[key] = value
	}
	for _, f := range s.varFiles {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("the file of variables cannot be read: %w", err)
		}
		cfg.VarFiles = append(cfg.VarFiles, jobspec.VarFile{Path: f, Source: data})
	}
	job, err := jobspec.Parse(cfg)
	if err != nil {
		return nil, Problems(s.env, shown, err)
	}
	if sub.Variables, err = jobspec.Values(cfg); err != nil {
		return nil, Problems(s.env, shown, err)
	}
	return &parsed{job, sub, cfg}, nil
}

// unsupported is what this program itself knows not to be built yet, with its places in the file.
func (p *parsed) unsupported() error {
	cfg := p.config
	cfg.AnyFeature = false
	_, err := jobspec.Parse(cfg)
	return err
}

// places are where the file has what a server refuses, when this program knows all of it: a server that found more has
// the longer list.
func (p *parsed) places(answer string) error {
	err := p.unsupported()
	for _, one := range jobspec.Problems(err) {
		before, after, found := strings.Cut(answer, one.Text)
		if !found {
			return nil
		}
		answer = before + after
	}
	if strings.Trim(answer, "; \n") != "" {
		return nil
	}
	return err
}

// failed says why a call about the job failed.
func (p *parsed) failed(e *kit.Env, op string, err error) error {
	var status *api.StatusError
	if errors.As(err, &status) && status.Code == http.StatusBadRequest {
		if places := p.places(status.Body); places != nil {
			return Problems(e, p.config.Path, places)
		}
	}
	return kit.Doing(err, op, "job", kit.Value(p.job.ID))
}

// environ is the environment in which variables of job files are looked up: BERTH_VAR_x beats NOMAD_VAR_x.
func (s *source) environ() []string {
	out := slices.Clone(s.env.Environ)
	for _, kv := range s.env.Environ {
		if rest, ok := strings.CutPrefix(kv, "BERTH_VAR_"); ok {
			out = append(out, "NOMAD_VAR_"+rest)
		}
	}
	return out
}

// Problems shows what is wrong with a file, place by place, and returns the sentence that sums it up.
func Problems(e *kit.Env, name string, err error) error {
	list := jobspec.Problems(err)
	if len(list) == 0 {
		return err
	}
	if len(list) == 1 && list[0].Snippet == "" {
		return fault.New(fault.Invalid, "", "", list[0].String())
	}
	for _, p := range list {
		e.Err.Printf("%s\n", p.String())
		if p.Snippet != "" {
			e.Err.Text(strings.TrimRight(p.Snippet, "\n") + "\n")
		}
	}
	return kit.Fail(fault.Invalid, "", "%s has %s", name, kit.Count(len(list), "problem", "problems"))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
