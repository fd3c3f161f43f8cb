package service

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"berth/internal/model/consul"
	"berth/internal/model/job"
)

// Check is a check of an instance: its texts are put together.
type Check struct {
	ID      string // hexadecimal, the same for as long as its alloc is there
	Name    string
	Service *Instance
	Of      *job.ServiceCheck
	Task    string // that is restarted when it fails and that a script runs in, as the job says; empty: all tasks
	Address string // host:port; empty: it is a script
	Path    string
	Body    string
	Header  map[string][]string
	// Consul is the check as Consul has it; nil: it is of a service that the servers tell of, and the node asks.
	Consul *consul.Check
}

// Checks are the checks of an alloc, as the job lists them. One that cannot be put together is left out; why is in the
// error.
func Checks(s Source) ([]*Check, error) {
	all, failed := s.instances(func(string) bool { return true })
	errs := []error{failed}
	var out []*Check
	for _, i := range all {
		for _, of := range i.Of.Checks {
			c, err := s.check(i, of)
			if err != nil {
				errs = append(errs, fmt.Errorf("check %q of service %q: %w", of.Name, i.Name, err))
				continue
			}
			if i.Of.Provider == job.ProviderConsul {
				c.Consul = s.forConsul(c)
				c.Of = counted(of)
			}
			out = append(out, c)
		}
	}
	return out, errors.Join(errs...)
}

func (s Source) check(i *Instance, of *job.ServiceCheck) (*Check, error) {
	c := &Check{Service: i, Of: of, Task: cmp.Or(of.TaskName, i.Task)}
	if of.Type == job.CheckScript {
		return s.script(c)
	}
	mode := cmp.Or(of.AddressMode, i.Of.AddressMode)
	label := cmp.Or(of.PortLabel, i.Of.PortLabel)
	if _, err := strconv.Atoi(label); err == nil && !job.WithinAlloc(mode) {
		return nil, errors.New("its port is a number, and it is not asked on a network of the allocation's own")
	}
	// The node asks, by what it can reach. So it asks the alloc alone, at what the servers gave it, wherever the
	// service is said to be.
	host, port, err := s.at(label, "", mode, i.env)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		return nil, errors.New("neither it nor its service names a port")
	}
	c.Address = net.JoinHostPort(host, strconv.Itoa(port))
	texts := []struct {
		text string
		to   *string
	}{{of.Name, &c.Name}, {of.Path, &c.Path}, {of.Body, &c.Body}}
	for _, t := range texts {
		if *t.to, err = i.env.Replace(t.text); err != nil {
			return nil, err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(of.Header)) {
		for _, v := range of.Header[k] {
			text, err := i.env.Replace(v)
			if err != nil {
				return nil, err
			}
			if c.Header == nil {
				c.Header = map[string][]string{}
			}
			c.Header[k] = append(c.Header[k], text)
		}
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{i.ID, c.Name, of.Type, of.PortLabel, c.Path}, "\x00")))
	c.ID = hex.EncodeToString(sum[:])
	return c, nil
}

// script completes a check that is a command. What the command becomes is seen by its task alone.
func (s Source) script(c *Check) (*Check, error) {
	if c.Task == "" {
		return nil, errors.New("a script runs in a task, and neither it nor its service names one")
	}
	var err error
	if c.Name, err = c.Service.env.Replace(c.Of.Name); err != nil {
		return nil, err
	}
	parts := append([]string{c.Service.ID, c.Name, c.Of.Type, c.Task, c.Of.Command}, c.Of.Args...)
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	c.ID = hex.EncodeToString(sum[:])
	return c, nil
}
