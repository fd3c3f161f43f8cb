package render

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Source names something that a template reads of the servers, of Consul, or of its task's files.
type Source struct {
	Kind string
	Name string
	// Choose so many instances of a service by Key; 0: all.
	Choose int    `json:",omitempty"`
	Key    string `json:",omitempty"`
}

// Kinds of sources.
const (
	Variable  = "variable"  // what lies at the path Name
	Variables = "variables" // the paths that begin with Name
	Service   = "service"   // the instances that are found as Name
	Services  = "services"  // the names under which any is found
	File      = "file"      // of the task's directories, which the node reads
)

// String is what people call it.
func (s Source) String() string {
	switch s.Kind {
	case Variables:
		return fmt.Sprintf("variables below %q", s.Name)
	case Services:
		return "the services"
	case ConsulKey:
		return fmt.Sprintf("key %q of Consul", s.Name)
	case ConsulKeys:
		return fmt.Sprintf("keys of Consul below %q", s.Name)
	case ConsulService:
		return fmt.Sprintf("service %q of Consul", s.Name)
	case ConsulServices:
		return "the services of Consul"
	}
	return fmt.Sprintf("%s %q", s.Kind, s.Name)
}

// MaxSources is how many sources the templates of one task may read.
const MaxSources = 100

// Known is what the servers have said: JSON of the type that a source has; empty: it is not there.
type Known map[Source]string

// Path is where a variable lies.
type Path struct{ Namespace, Path string }

func (p Path) String() string { return p.Path }

// Instance is one that is found as a service.
type Instance struct {
	ID, Name, Namespace, Node, Datacenter, JobID, AllocID string

	Tags    []string
	Address string
	Port    int
}

// ServiceName is a name under which instances are found.
type ServiceName struct {
	Name string
	Tags []string
}

// Rendering is what became of a template: its text, or what it reads and has not been asked for, or is not there.
type Rendering struct {
	Data  []byte   `json:"-"`
	Asks  []Source `json:",omitempty"`
	Waits []Source `json:",omitempty"`
}

// Whole tells that the text is what the template says.
func (r *Rendering) Whole() bool { return len(r.Asks)+len(r.Waits) == 0 }

// reading records what a template reads.
type reading struct {
	known Known
	env   []string // values of the environment that were read
	Rendering
}

// recorded records a value of the environment that is read.
func (r *reading) recorded(value string) string {
	r.env = append(r.env, value)
	return value
}

// look reads a source into out, as far as it is known, and reports whether it is there.
func (r *reading) look(s Source, out any) (bool, error) {
	text, asked := r.known[s]
	switch {
	case !asked:
		if len(r.known)+len(r.Asks) >= MaxSources {
			return false, fmt.Errorf("it reads more than %d variables, services and keys", MaxSources)
		}
		r.Asks = append(r.Asks, s)
		return false, nil
	case text == "":
		return false, nil
	}
	return true, json.Unmarshal([]byte(text), out)
}

// need is look for what a rendering waits for.
func (r *reading) need(s Source, out any) error {
	there, err := r.look(s, out)
	if _, asked := r.known[s]; !there && asked && err == nil {
		r.Waits = append(r.Waits, s)
	}
	return err
}

func (r *reading) table() []function {
	return []function{
		{"nomadVar", func(path string) (Items, error) {
			values := map[string]string{}
			err := r.need(Source{Kind: Variable, Name: path}, &values)
			return items(path, values), err
		}},
		{"file", func(path string) (string, error) {
			text := ""
			_, err := r.look(Source{Kind: File, Name: path}, &text)
			return text, err
		}},
		{"nomadVarExists", func(path string) (bool, error) {
			return r.look(Source{Kind: Variable, Name: path}, &map[string]string{})
		}},
		{"nomadVarList", func(prefix ...string) ([]Path, error) {
			s, err := listed(prefix)
			if err != nil {
				return nil, err
			}
			var list []Path
			_, err = r.look(s, &list)
			return list, err
		}},
		{"nomadVarListSafe", func(prefix ...string) ([]Path, error) {
			s, err := listed(prefix)
			if err != nil {
				return nil, err
			}
			var list []Path
			there, err := r.look(s, &list)
			if there && len(list) == 0 {
				r.Waits = append(r.Waits, s)
			}
			return list, err
		}},
		{"nomadService", func(args ...any) ([]Instance, error) {
			s, err := chosen(args)
			if err != nil {
				return nil, err
			}
			var list []Instance
			_, err = r.look(s, &list)
			return list, err
		}},
		{"nomadServices", func() ([]ServiceName, error) {
			var list []ServiceName
			_, err := r.look(Source{Kind: Services}, &list)
			return list, err
		}},
	}
}

func listed(prefix []string) (Source, error) {
	switch len(prefix) {
	case 0:
		return Source{Kind: Variables}, nil
	case 1:
		return Source{Kind: Variables, Name: prefix[0]}, nil
	}
	return Source{}, errors.New("it takes the beginning of paths, or nothing")
}

// chosen reads the arguments of nomadService: a name, or a number, a key and a name.
func chosen(args []any) (Source, error) {
	if len(args) == 1 {
		if name, ok := args[0].(string); ok {
			return Source{Kind: Service, Name: name}, nil
		}
	}
	if len(args) == 3 {
		n, number := args[0].(int)
		key, text := args[1].(string)
		name, also := args[2].(string)
		if number && text && also && n > 0 {
			return Source{Kind: Service, Name: name, Choose: n, Key: key}, nil
		}
	}
	return Source{}, errors.New(`nomadService takes a name, or a number above 0, a key and a name`)
}
