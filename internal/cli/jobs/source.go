package jobs

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/cli/kit"
	"berth/jobspec"

	"github.com/spf13/cobra"
)

// source reads a job file as the flags say.
type source struct {
	env      *kit.Env
	json     bool
	strict   bool
	vars     []string
	varFiles []string
}

func (s *source) addTo(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&s.json, "json", false, "the file is a job in JSON (it is recognised without this too)")
	fs.BoolVar(&s.strict, "hcl2-strict", true, "refuse values of variables that the file does not declare")
	fs.StringArrayVar(&s.vars, "var", nil, "give a variable of the file a value: `name=value`; may come again")
	fs.StringArrayVar(&s.varFiles, "var-file", nil, "`file` of values of variables; may come again")
}

// parsed is a job with what it was made of.
type parsed struct {
	job        *api.Job
	submission *api.JobSubmission
}

// read parses the file, or the standard input when it is named -.
func (s *source) read(name string) (*parsed, error) {
	text, shown, err := readSource(s.env, name)
	if err != nil {
		return nil, err
	}
	cfg := jobspec.ParseConfig{Path: shown, Source: text, Vars: map[string]string{}, Env: s.environ(), Strict: s.strict, AllowFileFunctions: true}
	sub := &api.JobSubmission{Source: string(text), Format: "hcl2", VariableFlags: cfg.Vars}
	if s.json || strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
		sub.Format = "json"
	}
	for _, v := range s.vars {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return nil, fault.New(fault.Invalid, "", "", fmt.Sprintf("-var %q is not of the form name=value", v))
		}
		cfg.Vars[key] = value
	}
	for _, f := range s.varFiles {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("the file of variables cannot be read: %w", err)
		}
		cfg.VarFiles = append(cfg.VarFiles, jobspec.VarFile{Path: f, Source: data})
		sub.Variables += string(data)
	}
	job, err := jobspec.Parse(cfg)
	if err != nil {
		return nil, Problems(s.env, shown, err)
	}
	return &parsed{job, sub}, nil
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

// readSource reads a file of the user, or the standard input.
func readSource(e *kit.Env, name string) (text []byte, shown string, err error) {
	if name == "-" {
		text, err = io.ReadAll(io.LimitReader(e.In, jobspec.MaxSource+1))
		shown = "<stdin>"
	} else {
		text, err = os.ReadFile(name)
		shown = filepath.Clean(name)
	}
	if err != nil {
		return nil, "", fmt.Errorf("the file cannot be read: %w", err)
	}
	return text, shown, nil
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
			e.Err.Printf("%s\n", strings.TrimRight(p.Snippet, "\n"))
		}
	}
	return fault.New(fault.Invalid, "", "", fmt.Sprintf("%s has %s", name, kit.Count(len(list), "problem", "problems")))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
