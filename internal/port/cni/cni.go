// Package cni owns how plugins of the Container Network Interface (CNI specification 1.1) are called: which networks
// their configuration names, and how a network namespace is attached to one and detached from it. It decides nothing:
// client/networks says what there is to be, and remembers it.
package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"berth/internal/base/fault"
)

// DefaultPath and DefaultDir are where plugins and configurations are looked for that the agent's configuration does
// not name.
const (
	DefaultPath = "/opt/cni/bin"
	DefaultDir  = "/opt/cni/config"
)

// ignoreUnknown is the argument that has plugins pass over those that they do not know.
const ignoreUnknown = "IgnoreUnknown"

// callLimit bounds a call of all plugins of a network: one that hangs holds up its alloc alone, and not for ever.
const callLimit = time.Minute

// Plugins says where plugins and their configurations are.
type Plugins struct {
	Path []string // directories of programs
	Dir  string   // of configurations: *.conflist, *.conf and *.json
}

// Network is the configuration of a network as it was read.
type Network struct {
	Name string
	List json.RawMessage
}

// Networks lists the networks that are configured. Files that are none are in the error; the others are returned.
func (p Plugins) Networks() (out []Network, err error) {
	files, err := libcni.ConfFiles(p.Dir, []string{".conflist", ".conf", ".json"})
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", p.Dir)
	}
	slices.Sort(files)
	var errs []error
	for _, f := range files {
		list, err := read(f)
		var whole json.RawMessage
		if err == nil {
			whole, err = inlined(list)
		}
		if err != nil {
			errs = append(errs, fault.Wrap(err, fault.Invalid, "read the network of CNI plugins in", f))
			continue
		}
		if !slices.ContainsFunc(out, func(n Network) bool { return n.Name == list.Name }) {
			out = append(out, Network{Name: list.Name, List: whole})
		}
	}
	return out, errors.Join(errs...)
}

// read reads a list of plugins, or a single one as the list of it.
func read(file string) (*libcni.NetworkConfigList, error) {
	if filepath.Ext(file) == ".conflist" {
		return libcni.ConfListFromFile(file)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return nil, err
	}
	if _, is := members["plugins"]; is {
		return libcni.ConfListFromBytes(b)
	}
	list, err := json.Marshal(map[string]any{
		"cniVersion": members["cniVersion"],
		"name":       members["name"],
		"plugins":    []json.RawMessage{b},
	})
	if err != nil {
		return nil, err
	}
	return libcni.ConfListFromBytes(list)
}

// inlined is the text of a list with those plugins in it that lie in files of their own.
func inlined(list *libcni.NetworkConfigList) (json.RawMessage, error) {
	members := map[string]any{}
	if err := json.Unmarshal(list.Bytes, &members); err != nil {
		return nil, err
	}
	var plugins []json.RawMessage
	for _, p := range list.Plugins {
		plugins = append(plugins, p.Bytes)
	}
	members["plugins"] = plugins
	return json.Marshal(members)
}

// Find returns the configuration of a network.
func (p Plugins) Find(name string) (*Network, error) {
	all, err := p.Networks()
	var names []string
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
		names = append(names, all[i].Name)
	}
	why := "there is none in " + p.Dir
	if len(names) > 0 {
		why = fmt.Sprintf("%s has %s", p.Dir, strings.Join(names, ", "))
	}
	return nil, errors.Join(fault.WithHint(fault.New(fault.NotFound, "find", fmt.Sprintf("the network %q", name), why),
		"write its configuration there, and restart the agent"), err)
}

// Port is a port of the node that leads to one of an alloc, as the capability portMappings has it.
type Port struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP,omitempty"`
}

// Attachment is everything that is needed to attach a namespace to a network and to detach it again, also when the
// configuration has changed meanwhile.
type Attachment struct {
	Network    Network
	Path       []string
	Container  string
	Namespace  string
	Interface  string
	Args       [][2]string `json:",omitempty"`
	Ports      []Port      `json:",omitempty"`
	Result     *Result     `json:",omitempty"` // nil: it is not known whether the plugins have attached it
	CacheBelow string      // where the library keeps what the plugins have answered
}

// Result is what an alloc has of its network.
type Result struct {
	IPv4, IPv6                 string
	Servers, Searches, Options []string `json:",omitempty"`
}

func (a *Attachment) call() (*libcni.CNIConfig, *libcni.NetworkConfigList, *libcni.RuntimeConf, error) {
	list, err := libcni.ConfListFromBytes(a.Network.List)
	if err != nil {
		return nil, nil, nil, fault.Wrap(err, fault.Invalid, "read", fmt.Sprintf("the network %q", a.Network.Name))
	}
	rt := &libcni.RuntimeConf{
		ContainerID: a.Container,
		NetNS:       a.Namespace,
		IfName:      a.Interface,
		Args:        append([][2]string{{ignoreUnknown, "true"}}, a.Args...),
	}
	if len(a.Ports) > 0 {
		rt.CapabilityArgs = map[string]any{"portMappings": a.Ports}
	}
	return libcni.NewCNIConfigWithCacheDir(a.Path, a.CacheBelow, newExec()), list, rt, nil
}

// Add attaches the namespace.
func (a *Attachment) Add(ctx context.Context) (*Result, error) {
	c, list, rt, err := a.call()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	raw, err := c.AddNetworkList(ctx, list, rt)
	if err != nil {
		return nil, a.failed("attach it to", err)
	}
	res, err := types100.NewResultFromResult(raw)
	if err != nil {
		return nil, a.failed("read the answer of", err)
	}
	out := &Result{Servers: res.DNS.Nameservers, Searches: res.DNS.Search, Options: res.DNS.Options}
	for _, ip := range res.IPs {
		if i := ip.Interface; i != nil && (*i < 0 || *i >= len(res.Interfaces) || res.Interfaces[*i].Sandbox == "") {
			continue // it is the node's end
		}
		addr, ok := netip.AddrFromSlice(ip.Address.IP)
		switch addr = addr.Unmap(); {
		case !ok:
		case addr.Is4() && out.IPv4 == "":
			out.IPv4 = addr.String()
		case addr.Is6() && out.IPv6 == "":
			out.IPv6 = addr.String()
		}
	}
	return out, nil
}

// Del detaches the namespace. Plugins take it that there is nothing to detach (CNI specification, DEL).
func (a *Attachment) Del(ctx context.Context) error {
	c, list, rt, err := a.call()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := c.DelNetworkList(ctx, list, rt); err != nil {
		return a.failed("detach it from", err)
	}
	return nil
}

// failed is an error that may go: a plugin says what is in the way, which is tried again.
func (a *Attachment) failed(op string, err error) error {
	var e *types.Error
	if errors.As(err, &e) {
		why := strings.TrimSpace(e.Msg + " " + e.Details)
		return fault.New(fault.Unavailable, op, fmt.Sprintf("the network %q", a.Network.Name),
			fmt.Sprintf("its CNI plugin says: %.500s", why))
	}
	return fault.WithHint(
		fault.Wrap(err, fault.Unavailable, op, fmt.Sprintf("the network %q of CNI plugins", a.Network.Name)),
		"its plugins are looked for in "+strings.Join(a.Path, ", "))
}
