package envoy

import "strings"

// Names of what Envoy counts contain whom it is about: of a cluster
//
//	hash~subset.service.namespace.partition.datacenter.routing.domain.consul.
//
// of which hash, subset and partition may be missing, and of an upstream service.namespace.partition.datacenter. A rule
// takes out of a name what its outer group matches, and makes what its inner one matches the value of a label.

// part is one of the parts of a name, and how it is written.
type part struct {
	name      string
	end       string // what it ends by
	matches   string
	maybe     bool // it may be missing
	unlabeled bool // it has no label of its own
}

const word = `[^.]+`

var ofCluster = []part{
	{name: "custom_hash", end: `~`, matches: word, maybe: true},
	{name: "service_subset", end: `\.`, matches: word, maybe: true},
	{name: "service", end: `\.`, matches: word},
	{name: "namespace", end: `\.`, matches: word},
	{name: "partition", end: `\.`, matches: word, maybe: true},
	{name: "datacenter", end: `\.`, matches: word},
	{name: "routing_type", end: `\.`, matches: word},
	{name: "trust_domain", end: `\.`, matches: word},
	{end: `\.`, matches: `consul`, unlabeled: true},
}

// taking is the text of a rule that takes the parts from first to last for the value of a label.
func taking(parts []part, first, last int) string {
	var b strings.Builder
	for i, p := range parts {
		if i == first && first == last {
			b.WriteString(p.text("(" + p.matches + ")"))
			continue
		}
		if i == first {
			b.WriteString("(")
		}
		if i == last {
			b.WriteString(p.matches + ")" + p.end)
			continue
		}
		b.WriteString(p.text(p.matches))
	}
	return b.String()
}

func (p part) text(matches string) string {
	if p.maybe {
		return "(?:" + matches + p.end + ")?"
	}
	return matches + p.end
}

// direct are the parts of a name without those of gateways: what is reached within the mesh alone has a partition and a
// datacenter that are told apart.
func direct(routing string) []part {
	out := append([]part{}, ofCluster...)
	out[6].matches = routing
	return out
}

// tag is a label with the rule that finds it.
func tag(name, regex string) object { return object{"tag_name": name, "regex": regex} }

func fixed(name, value string) object { return object{"tag_name": name, "fixed_value": value} }

// stats gives what Envoy counts the labels by which Consul's users know it.
func (c Config) stats() object {
	var tags []any
	// The labels without destination are those of earlier versions, which have no partitions and peers.
	for _, prefix := range []string{"consul.destination.", "consul."} {
		tags = append(tags, clusterTags(prefix)...)
		if prefix == "consul.destination." {
			tags = append(tags, upstreamTags()...)
		}
	}
	for _, own := range [][2]string{
		{"local_cluster", c.Cluster},
		{"consul.source.service", c.Source},
		{"consul.source.namespace", "default"},
		{"consul.source.partition", "default"},
		{"consul.source.datacenter", c.Datacenter},
	} {
		tags = append(tags, fixed(own[0], own[1]))
	}
	return object{"stats_tags": tags, "use_all_default_tags": true}
}

func clusterTags(prefix string) (tags []any) {
	newer := prefix == "consul.destination."
	begin := `^cluster\.(`
	if newer {
		begin = `^cluster\.(?:passthrough~)?(`
	}
	for i, p := range ofCluster {
		parts := ofCluster
		if p.name == "partition" || p.name == "datacenter" {
			parts = direct(`internal[^.]*`)
		}
		if !p.unlabeled && (newer || p.name != "partition") {
			tags = append(tags, tag(prefix+p.name, begin+taking(parts, i, i)+`)`))
		}
		if newer && p.name == "datacenter" {
			tags = append(tags, tag(prefix+"peer", `^cluster\.(`+word+`\.(?:`+word+`\.)?(`+word+`)\.external\.`+word+
				`\.consul\.)`))
		}
	}
	// Those of several parts take themselves out of a name, and leave the rest of it.
	for _, several := range []struct {
		name string
		last int
	}{{"target", 5}, {"full_target", 7}} {
		tags = append(tags, tag(prefix+several.name, begin+taking(ofCluster, 0, several.last)+`)`))
	}
	return tags
}

// upstreamTags are about listeners of upstreams, whose partition and namespace may be missing.
func upstreamTags() (tags []any) {
	const plain, peered = `^(?:tcp|http)\.upstream\.(`, `^(?:tcp|http)\.upstream_peered\.(`
	const both, maybe = `^(?:tcp|http)\.upstream(?:_peered)?\.(`, `(?:\.` + word + `)?`
	const taken, maybeTaken = `(` + word + `)`, `(?:\.(` + word + `))?`
	return []any{
		tag("consul.upstream.service", both+taken+maybe+maybe+`\.`+word+`\.)`),
		tag("consul.upstream.datacenter", plain+word+maybe+maybe+`\.`+taken+`\.)`),
		tag("consul.upstream.peer", peered+word+maybe+`\.`+taken+`\.)`),
		tag("consul.upstream.namespace", both+word+maybeTaken+maybe+`\.`+word+`\.)`),
		tag("consul.upstream.partition", plain+word+maybe+maybeTaken+`\.`+word+`\.)`),
	}
}
