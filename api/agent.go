package api

// AgentSelf is what an agent says of itself.
type AgentSelf struct {
	Config map[string]any               `json:"config"`
	Member AgentMember                  `json:"member"`
	Stats  map[string]map[string]string `json:"stats"`
}

// AgentMember is one server as gossip knows it.
type AgentMember struct {
	Name        string
	Addr        string
	Port        uint16
	Tags        map[string]string
	Status      string
	ProtocolMin uint8
	ProtocolMax uint8
	ProtocolCur uint8
	DelegateMin uint8
	DelegateMax uint8
	DelegateCur uint8
}

// ServerMembers are the servers that an agent knows.
type ServerMembers struct {
	ServerName   string
	ServerRegion string
	ServerDC     string
	Members      []*AgentMember
}

// AgentHealthResponse is the health of both halves of an agent; a half that is not there is nil.
type AgentHealthResponse struct {
	Client *AgentHealth `json:"client,omitempty"`
	Server *AgentHealth `json:"server,omitempty"`
}

// AgentHealth is the health of one half.
type AgentHealth struct {
	Ok      bool   `json:"ok"`
	Message string `json:"message"`
}

// SearchRequest is the body of search.
type SearchRequest struct {
	Prefix  string
	Context string
	QueryOptionsBody
}

// QueryOptionsBody are the members that clients send along with a search; the query parameters say the same.
type QueryOptionsBody struct {
	Region     string
	Namespace  string
	AllowStale bool
	WaitIndex  uint64
	WaitTime   int64
	Params     map[string]string
	Headers    map[string]string
	AuthToken  string
	Filter     string
	PerPage    int32
	NextToken  string
	Reverse    bool
}

// SearchResponse are ids by context, and whether there are more.
type SearchResponse struct {
	Matches     map[string][]string
	Truncations map[string]bool
	QueryMeta
}

// Namespace is a separate space of names.
type Namespace struct {
	Name                  string                          `hcl:"name"`
	Description           string                          `hcl:"description"`
	Quota                 string                          `hcl:"quota"`
	Capabilities          *NamespaceCapabilities          `hcl:"capabilities,block"`
	NodePoolConfiguration *NamespaceNodePoolConfiguration `hcl:"node_pool_config,block"`
	VaultConfiguration    *NamespaceVaultConfiguration    `hcl:"vault,block"`
	ConsulConfiguration   *NamespaceConsulConfiguration   `hcl:"consul,block"`
	Meta                  map[string]string               `hcl:"meta,map"`
	Hash                  []byte
	CreateIndex           uint64
	ModifyIndex           uint64
	RequiredExtraClaims   map[string]string
	OptionalExtraClaims   map[string]string
}

// NamespaceCapabilities is what jobs of a namespace may use.
type NamespaceCapabilities struct {
	EnabledTaskDrivers   []string `hcl:"enabled_task_drivers"`
	DisabledTaskDrivers  []string `hcl:"disabled_task_drivers"`
	EnabledNetworkModes  []string `hcl:"enabled_network_modes"`
	DisabledNetworkModes []string `hcl:"disabled_network_modes"`
}

// NamespaceNodePoolConfiguration is which node pools a namespace may use. Allowed is nil for every pool; empty: Default
// alone.
type NamespaceNodePoolConfiguration struct {
	Default string   `hcl:"default"`
	Allowed []string `hcl:"allowed"`
	Denied  []string `hcl:"denied"`
}

// NamespaceVaultConfiguration is which Vault clusters a namespace may use.
type NamespaceVaultConfiguration NamespaceNodePoolConfiguration

// NamespaceConsulConfiguration is which Consul clusters a namespace may use.
type NamespaceConsulConfiguration NamespaceNodePoolConfiguration
