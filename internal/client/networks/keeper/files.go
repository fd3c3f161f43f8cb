package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/client/networks"
	"berth/internal/model/network"
	"berth/internal/port/driver"
)

// Files of the node by which it resolves names: its own, and that of a resolver on its loopback.
var nodeResolvers = []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"}

const nodeHosts = "/etc/hosts"

// files writes what tasks with a root of their own see of the network in /etc.
func (k *Keeper) files(r *Record, w networks.Want) (out driver.Network, warnings []string, err error) {
	out.Hostname = w.Hostname
	name := w.Hostname
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return out, nil, fault.Wrap(err, fault.Internal, "read", "the node's name")
		}
	}
	write := func(file, text string) {
		if err == nil {
			err = keep(k.place(r, file), text)
			out.Files = append(out.Files,
				driver.Mount{Source: k.place(r, file), Target: "/etc/" + file, ReadOnly: true})
		}
	}
	v4, v6 := r.addresses()
	switch {
	case r.isolated():
		write(hosts, network.Hosts(name, v4, v6))
		write(hostname, name+"\n")
	case w.Hostname != "":
		nodes, err := readAny(nodeHosts)
		if err != nil {
			return out, nil, err
		}
		write(hosts, strings.Join(nodes, "")+"127.0.1.1 "+name+"\n")
		write(hostname, name+"\n")
	}
	if w.DNS == nil && !r.connected() {
		return out, nil, err
	}
	nodes, readErr := readAny(nodeResolvers...)
	text, unreachable := network.Resolver(w.DNS, nodes...)
	if unreachable && r.connected() {
		warnings = append(warnings, "The node resolves names by its loopback alone, which is not reached from the "+
			"allocation's network: name servers in the dns block of the group's network")
	}
	write(resolver, text)
	return out, warnings, errors.Join(err, readErr)
}

// readAny reads the files that are there.
func readAny(paths ...string) (texts []string, err error) {
	for _, p := range paths {
		b, err := os.ReadFile(p)
		switch {
		case err == nil:
			texts = append(texts, string(b))
		case !errors.Is(err, os.ErrNotExist):
			return nil, fault.Wrap(err, fault.Internal, "read", p)
		}
	}
	return texts, nil
}

// keep writes a file if it has another text: who has the old one mounted keeps that. It need not outlive a power
// failure, after which it is written anew.
func keep(path, text string) error {
	now, err := os.ReadFile(path)
	if err == nil && bytes.Equal(now, []byte(text)) {
		return nil
	}
	if err = os.WriteFile(path+unfinished, []byte(text), 0o644); err == nil {
		err = os.Rename(path+unfinished, path)
	}
	return fault.Wrap(err, fault.Internal, "write", path)
}

// unfinished ends the name of a file that is being written.
const unfinished = ".new"

// dropping puts into words that chains of others drop what is forwarded; empty: none does.
func dropping(bridge string, chains []string) string {
	if len(chains) == 0 {
		return ""
	}
	return fmt.Sprintf("Packets to and from allocations may be dropped on this node: nftables chain %s drops what is "+
		"forwarded unless a rule of its own accepts it, which no other table can overrule. Accept there what comes from "+
		"link %s and what goes to it", strings.Join(chains, ", "), bridge)
}
