package network

import (
	"net/netip"
	"strings"

	"berth/internal/model/job"
)

// Bounds of what a group may say of how names are resolved: those of resolv.conf(5) and of a file that is read at every
// look-up.
const (
	MaxServers  = 3
	MaxSearches = 32
	MaxOptions  = 32
	maxWord     = 255 // bytes, of a server, a domain or an option
	maxHostname = 63  // bytes, of each part between dots
)

// BadDNS tells what is wrong with a group's dns block; nothing: it is fine.
func BadDNS(d *job.DNS) (problems []string) {
	if d == nil {
		return nil
	}
	for _, s := range d.Servers {
		if a, err := netip.ParseAddr(s); err != nil || a.Zone() != "" && !a.Is6() {
			problems = append(problems, "dns servers: "+quoted(s)+" is no IP address")
		}
	}
	for _, l := range []struct {
		what  string
		words []string
		most  int
	}{{"servers", d.Servers, MaxServers}, {"searches", d.Searches, MaxSearches}, {"options", d.Options, MaxOptions}} {
		if len(l.words) > l.most {
			problems = append(problems, "dns "+l.what+": there are more than a resolver reads")
		}
		for _, w := range l.words {
			if w == "" || len(w) > maxWord || strings.ContainsFunc(w, blank) {
				problems = append(problems, "dns "+l.what+": "+quoted(w)+" is no word")
			}
		}
	}
	return problems
}

func blank(c rune) bool { return c <= ' ' || c == 0x7f }

func quoted(s string) string { return `"` + s[:min(len(s), maxWord)] + `"` }

// BadHostname tells what is wrong with the name that a task's host would have, after what it names was replaced; empty:
// nothing (RFC 1123, 2.1).
func BadHostname(name string) string {
	const longest = 64 // what the kernel takes (HOST_NAME_MAX)
	if name == "" || len(name) > longest {
		return "the name of a host has 1 to 64 bytes"
	}
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || len(part) > maxHostname || part[0] == '-' || part[len(part)-1] == '-' ||
			strings.Trim(strings.ToLower(part), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return "its parts, between dots, are 1 to 63 letters, digits and hyphens, and neither begin nor end with " +
				"a hyphen"
		}
	}
	return ""
}

// Hosts is the file /etc/hosts of a group whose host has a name and, but in mode none, addresses.
func Hosts(hostname string, addrs ...netip.Addr) string {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n" +
		"fe00::0 ip6-localnet\nff00::0 ip6-mcastprefix\nff02::1 ip6-allnodes\nff02::2 ip6-allrouters\n")
	named := false
	for _, a := range addrs {
		if a.IsValid() {
			b.WriteString(a.String() + " " + names(hostname) + "\n")
			named = true
		}
	}
	if !named {
		b.WriteString("127.0.1.1 " + names(hostname) + "\n")
	}
	return b.String()
}

// names are those of a host: with its domain first, as hosts(5) has it.
func names(hostname string) string {
	if short, _, has := strings.Cut(hostname, "."); has {
		return hostname + " " + short
	}
	return hostname
}

// Resolver is the file /etc/resolv.conf of a group. Without servers of its own it has those of the node, from the first
// of its files (/etc/resolv.conf, and that of a resolver which listens on the node's loopback) that names one which is
// reached from another network namespace; unreachable: none does.
func Resolver(d *job.DNS, nodes ...string) (text string, unreachable bool) {
	if d == nil {
		d = &job.DNS{}
	}
	kept := parse("")
	for _, file := range nodes {
		if kept = parse(file); len(kept.Servers) > 0 {
			break
		}
	}
	var b strings.Builder
	servers := d.Servers
	if len(servers) == 0 {
		servers = kept.Servers
	}
	for _, s := range servers {
		b.WriteString("nameserver " + s + "\n")
	}
	line := func(keyword string, own, nodes []string) {
		if len(own) == 0 {
			own = nodes
		}
		if len(own) > 0 {
			b.WriteString(keyword + " " + strings.Join(own, " ") + "\n")
		}
	}
	line("search", d.Searches, kept.Searches)
	line("options", d.Options, kept.Options)
	return b.String(), len(servers) == 0
}

// parse reads a resolv.conf, without servers on its own loopback.
func parse(file string) (out job.DNS) {
	for text := range strings.Lines(file) {
		words := strings.Fields(text)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "nameserver":
			if a, err := netip.ParseAddr(words[1]); err == nil && !a.IsLoopback() && len(out.Servers) < MaxServers {
				out.Servers = append(out.Servers, words[1])
			}
		case "search", "domain":
			out.Searches = words[1:]
		case "options":
			out.Options = append(out.Options, words[1:]...)
		}
	}
	return out
}
