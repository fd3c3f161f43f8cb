package workload

import (
	"maps"
	"slices"

	"berth/internal/base/fault"
	"berth/internal/base/pattern"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// Bounds of the claims that a job adds to an identity: each is in every token of it.
const (
	MaxClaims     = 16
	MaxClaimName  = 128
	MaxClaimValue = 512  // as it is written
	maxClaim      = 1024 // as it is said
)

// Place is where the task runs, for what claims say of that.
type Place struct {
	JobPool    string // that the job asks for
	Datacenter string // of the node, as its pool and class
	NodePool   string
	NodeClass  string
}

// values are what ${…} in a claim may stand for.
func (s *Statement) values() map[string]string {
	return map[string]string{
		"job.region":    s.Region,
		"job.namespace": string(s.Alloc.Namespace),
		"job.id":        string(s.Alloc.Job),
		"group.name":    s.Alloc.TaskGroup,
		"alloc.id":      string(s.Alloc.ID),
		"task.name":     s.Task,
		"node.id":       string(s.Alloc.Node),

		"job.node_pool":   s.Place.JobPool,
		"node.datacenter": s.Place.Datacenter,
		"node.pool":       s.Place.NodePool,
		"node.class":      s.Place.NodeClass,
	}
}

// ClaimReferences are what ${…} in a claim may stand for, by name.
func ClaimReferences() []string {
	return slices.Sorted(maps.Keys((&Statement{Alloc: &alloc.Alloc{}}).values()))
}

var reference = pattern.Of(`\$\{([^{}]*)\}`)

// UnknownReference is the first ${…} of a claim that stands for nothing; empty: there is none.
func UnknownReference(claim string) string {
	known := ClaimReferences()
	for _, m := range reference().FindAllStringSubmatch(claim, -1) {
		if !slices.Contains(known, m[1]) {
			return m[0]
		}
	}
	return ""
}

// extra are the claims that the job adds, with what they refer to.
func (s *Statement) extra() (map[string]string, error) {
	if len(s.Identity.ExtraClaims) == 0 {
		return nil, nil
	}
	values, out := s.values(), map[string]string{}
	for name, text := range s.Identity.ExtraClaims {
		value, err := job.Expand(text, func(n string) (string, bool) {
			v, known := values[n]
			return v, known
		}, maxClaim)
		if err != nil {
			return nil, fault.Note(err, "sign", "claim "+name)
		}
		out[name] = value
	}
	return out, nil
}
