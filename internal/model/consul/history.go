package consul

import (
	"maps"
	"slices"
	"strings"
)

// remembered is how many marks of tags that a service had before its registration keeps: a value of meta has 512 bytes
// in Consul.
const remembered = 24

// jobsMark is the mark of the tags that the job gave, of what MetaMark keeps.
func jobsMark(kept string) string {
	mark, _, _ := strings.Cut(kept, " ")
	return mark
}

// before are the marks of the tags that a service has or had by others, of what MetaMark keeps, the latest last.
func before(kept string) []string {
	all := strings.Fields(kept)
	return all[min(1, len(all)):]
}

// kept is what MetaMark of the registration that there is keeps, or of the one that there was.
func (f Facts) kept() string {
	switch {
	case f.Agent != nil:
		return f.Agent.Meta[MetaMark]
	case f.Catalog != nil:
		return f.Catalog.Mark
	}
	return ""
}

// marked is meta as the service is to have it, with what its registration keeps.
func (f Facts) marked(meta map[string]string) map[string]string {
	out := maps.Clone(meta)
	delete(out, MetaMark)
	if !f.Wanted.EnableTagOverride && f.kept() == "" {
		return out
	}
	if out == nil {
		out = map[string]string{}
	}
	out[MetaMark] = strings.Join(append([]string{Mark(f.Wanted.Tags)}, before(f.kept())...), " ")
	return out
}

// remember has a registration keep the tags that the service had until now, and those that it has by others: so no two
// registrations with other tags keep the same.
func (f Facts) remember(next *Service) {
	kept := next.Meta[MetaMark]
	if kept == "" { // of a service whose tags nobody else may change yet
		if f.Agent == nil || SameTags(f.Agent.Tags, next.Tags) {
			return
		}
		kept = Mark(next.Tags)
		if next.Meta == nil {
			next.Meta = map[string]string{}
		}
	}
	had := append(slices.Clone(f.Had), before(kept)...)
	if was := jobsMark(f.kept()); was != "" && was != jobsMark(kept) {
		had = append(had, was)
	}
	if f.Agent != nil {
		had = append(had, Mark(f.Agent.Tags))
	}
	if now := Mark(next.Tags); len(had) > 0 || now != jobsMark(kept) {
		had = append(had, now)
	}
	next.Meta[MetaMark] = strings.Join(append([]string{jobsMark(kept)}, latest(had, remembered)...), " ")
}

// Had is what is known of the tags that a service has and had, with what the agent has of it now.
func Had(known []string, agent *Service) []string {
	if agent == nil {
		return known
	}
	all := append(slices.Clone(known), before(agent.Meta[MetaMark])...)
	return latest(append(all, Mark(agent.Tags)), remembered)
}

// latest are the last so many of marks, each once.
func latest(marks []string, most int) (out []string) {
	for _, mark := range slices.Backward(marks) {
		if len(out) < most && !slices.Contains(out, mark) {
			out = append(out, mark)
		}
	}
	slices.Reverse(out)
	return out
}

// fellBack reports that Consul began anew with tags that the service had before. An agent that is a server reads its
// catalog while that is still replayed from the disk, takes over the tags of that moment, and may push them over the
// later ones. Somebody's edit is told from that by tags that the service never had, or by an agent that has yet to hear
// of them.
func (f Facts) fellBack() bool {
	if f.Held == nil || f.Catalog == nil || !SameTags(f.Catalog.Tags, f.Agent.Tags) ||
		SameTags(f.Catalog.Tags, f.Held.Tags) {
		return false
	}
	mark := Mark(f.Catalog.Tags)
	return slices.Contains(f.Had, mark) || slices.Contains(strings.Fields(f.Agent.Meta[MetaMark]), mark)
}
