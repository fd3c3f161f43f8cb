package render

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/pattern"
)

// Kinds of sources of Consul. Their names are what stands in the template; Source.Asked reads them.
const (
	ConsulKey      = "consul key"      // the value at a path
	ConsulKeys     = "consul keys"     // the keys below a path
	ConsulService  = "consul service"  // the instances of a service
	ConsulServices = "consul services" // the names of services
)

// consulKinds are the kinds of what Consul is asked for, not the servers.
var consulKinds = []string{ConsulKey, ConsulKeys, ConsulService, ConsulServices}

// OfConsul reports whether Consul is asked for a source, and not the servers.
func (s Source) OfConsul() bool { return slices.Contains(consulKinds, s.Kind) }

// Asked is what Consul is asked for by a source.
type Asked struct {
	Name       string   // path of keys, or name of a service
	Tag        string   // of instances; empty: any
	Datacenter string   // empty: that of the agent
	Statuses   []string // of instances; empty: any
}

// Statuses of instances of a service, and what stands for all of them.
const (
	passing = "passing"
	anyOne  = "any"
)

var (
	datacenterForm = pattern.Of(`^[\w.-]+$`)
	serviceForm    = pattern.Of(`^(?:([\w:=.-]+)\.)?([\w-]+)$`)
	statusForm     = pattern.Of(`^(any|passing|warning|critical|maintenance)$`)
)

// Asked reads what a source of Consul asks for: PATH@DC, or TAG.NAME@DC|STATUS,STATUS.
func (s Source) Asked() (out Asked, err error) {
	rest, statuses := s.Name, passing
	if s.Kind == ConsulService {
		if before, after, ok := strings.Cut(rest, "|"); ok {
			rest, statuses = before, after
		}
	}
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		rest, out.Datacenter = rest[:i], rest[i+1:]
		if !datacenterForm().MatchString(out.Datacenter) {
			return out, fmt.Errorf("%q is no name of a datacenter", out.Datacenter)
		}
	}
	switch s.Kind {
	case ConsulKey, ConsulKeys:
		out.Name = strings.TrimPrefix(rest, "/")
		if s.Kind == ConsulKey && out.Name == "" {
			return out, errors.New("the path of a key is missing")
		}
	case ConsulServices:
		if rest != "" {
			return out, fmt.Errorf("%q is no datacenter: write @NAME, or nothing", rest)
		}
	case ConsulService:
		parts := serviceForm().FindStringSubmatch(rest)
		if parts == nil {
			return out, fmt.Errorf("%q is no service: write TAG.NAME@DC|STATUS, of which NAME is enough", s.Name)
		}
		out.Tag, out.Name = parts[1], parts[2]
		out.Statuses, err = readStatuses(statuses)
	}
	return out, err
}

// readStatuses reads a list of statuses; none: any will do.
func readStatuses(text string) (out []string, err error) {
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		if !statusForm().MatchString(one) {
			return nil, fmt.Errorf("%q is no status: there are any, passing, warning, critical and maintenance", one)
		}
		out = append(out, one)
	}
	if slices.Contains(out, anyOne) {
		return nil, nil
	}
	return out, nil
}

// Pair is a key of Consul with its value.
type Pair struct {
	Key   string // from the path on below which it was asked for
	Path  string // all of it
	Value string

	CreateIndex, ModifyIndex, Flags uint64
}

// Found is an instance of a service of Consul.
type Found struct {
	ID, Name, Node, NodeID, NodeAddress, Status string

	Address               string // of its node where it has none of its own
	Port                  int
	Tags                  []string
	ServiceMeta, NodeMeta map[string]string
}

// consul are the functions that read Consul.
func (r *reading) consul() []function {
	return []function{
		{"key", func(path string) (string, error) {
			text := ""
			err := r.needKey(path, &text)
			return text, err
		}},
		{"keyExists", func(path string) (bool, error) {
			text := ""
			return r.lookConsul(Source{Kind: ConsulKey, Name: path}, &text)
		}},
		{"keyOrDefault", func(path, otherwise string) (string, error) {
			text := ""
			_, err := r.lookConsul(Source{Kind: ConsulKey, Name: path}, &text)
			if text == "" {
				text = otherwise
			}
			return text, err
		}},
		{"ls", func(path string) ([]Pair, error) { return r.pairs(path, (*Pair).lies, false) }},
		{"safeLs", func(path string) ([]Pair, error) { return r.pairs(path, (*Pair).lies, true) }},
		{"tree", func(path string) ([]Pair, error) { return r.pairs(path, (*Pair).holds, false) }},
		{"safeTree", func(path string) ([]Pair, error) { return r.pairs(path, (*Pair).holds, true) }},
		{"explode", func(all []Pair) (map[string]any, error) {
			values := map[string]any{}
			for _, p := range all {
				values[p.Key] = p.Value
			}
			return explode(values)
		}},
		{"service", func(name string, statuses ...string) ([]Found, error) {
			if len(statuses) > 0 {
				name += "|" + strings.Join(statuses, ",")
			}
			var list []Found
			_, err := r.lookConsul(Source{Kind: ConsulService, Name: name}, &list)
			for i := range list {
				list[i].Address = cmp.Or(list[i].Address, list[i].NodeAddress)
			}
			return list, err
		}},
		{"services", func(in ...string) ([]ServiceName, error) {
			if len(in) > 1 {
				return nil, errors.New("it takes a datacenter, as @NAME, or nothing")
			}
			var list []ServiceName
			_, err := r.lookConsul(Source{Kind: ConsulServices, Name: strings.Join(in, "")}, &list)
			return list, err
		}},
	}
}

// lies reports whether a key lies at a path itself, and not in a folder there.
func (p *Pair) lies() bool { return p.Key != "" && !strings.Contains(p.Key, "/") }

// holds reports whether a key is no folder.
func (p *Pair) holds() bool { return p.Key != "" && !strings.HasSuffix(p.Key, "/") }

// pairs are the keys below a path that are meant; safe: while there are none, the rendering waits.
func (r *reading) pairs(path string, meant func(*Pair) bool, safe bool) ([]Pair, error) {
	s := Source{Kind: ConsulKeys, Name: path}
	var list []Pair
	there, err := r.lookConsul(s, &list)
	list = slices.DeleteFunc(list, func(p Pair) bool { return !meant(&p) })
	if there && safe && len(list) == 0 {
		r.Waits = append(r.Waits, s)
	}
	return list, err
}

// needKey is the value of a key, for which a rendering waits.
func (r *reading) needKey(path string, out *string) error {
	s := Source{Kind: ConsulKey, Name: path}
	if _, err := s.Asked(); err != nil {
		return r.misnamed(s, err)
	}
	return r.need(s, out)
}

// lookConsul is look for a source whose name is of the form that Consul is asked by.
func (r *reading) lookConsul(s Source, out any) (bool, error) {
	if _, err := s.Asked(); err != nil {
		return false, r.misnamed(s, err)
	}
	return r.look(s, out)
}

// groupedByTag are instances by their tags; one with several is in several groups.
func groupedByTag[T any](all []T, tags func(T) []string) map[string][]T {
	out := map[string][]T{}
	for _, one := range all {
		for _, tag := range tags(one) {
			out[tag] = append(out[tag], one)
		}
	}
	return out
}
