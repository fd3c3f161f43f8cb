package api

import "time"

// SchedulerConfiguration is what operators may change of the scheduler.
type SchedulerConfiguration struct {
	SchedulerAlgorithm            string
	PreemptionConfig              PreemptionConfig
	MemoryOversubscriptionEnabled bool
	RejectJobRegistration         bool
	PauseEvalBroker               bool
	NodeLimitForFeasibilityChecks int
	CreateIndex                   uint64
	ModifyIndex                   uint64
}

// PreemptionConfig says which job types may displace others.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool
	SysBatchSchedulerEnabled bool
	BatchSchedulerEnabled    bool
	ServiceSchedulerEnabled  bool
}

// SchedulerConfigurationResponse is the reply to a read of the scheduler's configuration.
type SchedulerConfigurationResponse struct {
	SchedulerConfig *SchedulerConfiguration
	QueryMeta
}

// RaftConfiguration are the members of the consensus group.
type RaftConfiguration struct {
	Servers []*RaftServer
	Index   uint64
}

// RaftServer is one member of the consensus group.
type RaftServer struct {
	ID           string
	Node         string
	Address      string
	Leader       bool
	Voter        bool
	RaftProtocol string
}

// AutopilotConfiguration is how the servers keep themselves. Durations are texts like "200ms".
type AutopilotConfiguration struct {
	CleanupDeadServers      bool
	LastContactThreshold    string
	MaxTrailingLogs         uint64
	MinQuorum               uint64
	ServerStabilizationTime string
	// Those below are false: Berth has nothing of them.
	EnableRedundancyZones   bool
	DisableUpgradeMigration bool
	EnableCustomUpgrades    bool
	CreateIndex             uint64
	ModifyIndex             uint64
}

// AutopilotHealth is how the servers are.
type AutopilotHealth struct {
	Healthy          bool
	FailureTolerance int // servers that may fail yet before nothing is written any more
	Leader           string
	Voters           []string
	Servers          []*ServerHealth
}

// ServerHealth is how one server is.
type ServerHealth struct {
	ID          string
	Name        string
	Address     string
	SerfStatus  string // as members show it
	Version     string
	Leader      bool
	LastContact string // a duration
	LastTerm    uint64
	LastIndex   uint64
	Healthy     bool
	Voter       bool
	StableSince time.Time
	Reason      string `json:",omitempty"` // why it is not healthy, and what to do; empty: it is
}

// JSONWebKeySet are the public keys by which others check what the cluster has signed (RFC 7517).
type JSONWebKeySet struct {
	Keys []JSONWebKey `json:"keys"`
}

// OIDCConfiguration says where those keys are, to whoever knows the issuer (OpenID Connect Discovery 1.0).
type OIDCConfiguration struct {
	Issuer        string   `json:"issuer"`
	JWKS          string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// JSONWebKey is one public key; curve and x are those of RFC 8037, n and e those of RFC 7518.
type JSONWebKey struct {
	KeyType   string `json:"kty"`
	Use       string `json:"use"`
	KeyID     string `json:"kid"`
	Algorithm string `json:"alg"`
	Curve     string `json:"crv,omitempty"`
	X         string `json:"x,omitempty"`
	Modulus   string `json:"n,omitempty"`
	Exponent  string `json:"e,omitempty"`
}
