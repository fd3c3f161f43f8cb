package consul

import "berth/internal/model/consul"

// shape is a service as Consul writes it, and as it is registered: the name has another member then.
type shape struct {
	ID                string
	Name              string `json:",omitempty"` // of a registration
	Service           string `json:",omitempty"` // of an answer: the name
	Kind              string `json:",omitempty"`
	Tags              []string
	Meta              map[string]string         `json:",omitempty"`
	Address           string                    `json:",omitempty"`
	Port              int                       `json:",omitempty"`
	TaggedAddresses   map[string]consul.Address `json:",omitempty"`
	Weights           *consul.Weights           `json:",omitempty"`
	EnableTagOverride bool
	Checks            []*check      `json:",omitempty"` // of a registration
	ModifyIndex       uint64        `json:",omitempty"` // of an answer of the catalog
	Connect           *connect      `json:",omitempty"`
	Proxy             *consul.Proxy `json:",omitempty"`
}

// connect is the part in the mesh of a service that is no proxy.
type connect struct {
	Native bool `json:",omitempty"`
}

func (s *shape) service() *consul.Service {
	out := &consul.Service{
		ID:                s.ID,
		Name:              s.Service,
		Kind:              s.Kind,
		Tags:              s.Tags,
		Meta:              s.Meta,
		Address:           s.Address,
		Port:              s.Port,
		TaggedAddresses:   s.TaggedAddresses,
		EnableTagOverride: s.EnableTagOverride,
		Native:            s.Connect != nil && s.Connect.Native,
	}
	if s.Kind != "" { // of others Consul shows an empty one
		out.Proxy = s.Proxy
	}
	if s.Weights != nil {
		out.Weights = *s.Weights
	}
	return out
}

func registered(s *consul.Service) *shape {
	out := &shape{
		ID:                s.ID,
		Name:              s.Name,
		Kind:              s.Kind,
		Tags:              s.Tags,
		Meta:              s.Meta,
		Address:           s.Address,
		Port:              s.Port,
		TaggedAddresses:   s.TaggedAddresses,
		EnableTagOverride: s.EnableTagOverride,
		Proxy:             s.Proxy,
	}
	if s.Native {
		out.Connect = &connect{Native: true}
	}
	if s.Weights != (consul.Weights{}) {
		out.Weights = &s.Weights
	}
	return out
}

// check is a check as it is registered.
type check struct {
	ID        string `json:",omitempty"` // of a registration of its own
	CheckID   string `json:",omitempty"` // of one with its service
	ServiceID string `json:",omitempty"`
	Name      string
	Notes     string              `json:",omitempty"`
	Status    string              `json:",omitempty"`
	Interval  string              `json:",omitempty"`
	Timeout   string              `json:",omitempty"`
	TTL       string              `json:",omitempty"`
	HTTP      string              `json:",omitempty"`
	Method    string              `json:",omitempty"`
	Body      string              `json:",omitempty"`
	Header    map[string][]string `json:",omitempty"`
	TCP       string              `json:",omitempty"`
	GRPC      string              `json:",omitempty"`
	Alias     string              `json:"AliasService,omitempty"`

	GRPCUseTLS    bool   `json:",omitempty"`
	TLSServerName string `json:",omitempty"`
	TLSSkipVerify bool   `json:",omitempty"`

	SuccessBeforePassing   int `json:",omitempty"`
	FailuresBeforeWarning  int `json:",omitempty"`
	FailuresBeforeCritical int `json:",omitempty"`

	DeregisterCriticalServiceAfter string `json:",omitempty"`
}

func checkOf(c consul.Check) *check {
	return &check{
		Name:     c.Name,
		Notes:    c.Notes,
		Status:   c.Status,
		Interval: c.Interval,
		Timeout:  c.Timeout,
		TTL:      c.TTL,
		HTTP:     c.HTTP,
		Method:   c.Method,
		Body:     c.Body,
		Header:   c.Header,
		TCP:      c.TCP,
		GRPC:     c.GRPC,
		Alias:    c.Alias,

		GRPCUseTLS:    c.GRPCTLS,
		TLSServerName: c.TLSServer,
		TLSSkipVerify: c.TLSSkip,

		SuccessBeforePassing:   c.SuccessBeforePassing,
		FailuresBeforeWarning:  c.FailuresBeforeWarning,
		FailuresBeforeCritical: c.FailuresBeforeCritical,

		DeregisterCriticalServiceAfter: c.DeregisterAfter,
	}
}
