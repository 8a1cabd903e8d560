package v1alpha1

// DecisionLog selects the decisions that the pods write to their standard output, as JSON.
type DecisionLog struct {
	// denialsPerSecond is the number of denials that each pod writes per second. More denials are dropped, and counted in
	// weir_decision_log_dropped_total. If omitted or 0, denials are not written.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	DenialsPerSecond int32 `json:"denialsPerSecond,omitempty"`
	// sampleOneIn writes one in so many of the decisions that are no denials. 1 writes all. If omitted or 0, they are not written.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	SampleOneIn int32 `json:"sampleOneIn,omitempty"`
	// identifiers is how identifiers appear in the log. Counted writes them as they are counted: API keys are hashed. Hashed hashes all
	// of them. Omitted writes no identifiers. Defaults to Counted.
	// +optional
	// +kubebuilder:default=Counted
	Identifiers LoggedIdentifiers `json:"identifiers,omitempty"`
}

// LoggedIdentifiers is how identifiers appear in a decision log.
// +kubebuilder:validation:Enum=Counted;Hashed;Omitted
type LoggedIdentifiers string

const (
	// LoggedIdentifiersCounted writes identifiers as they are counted.
	LoggedIdentifiersCounted LoggedIdentifiers = "Counted"
	// LoggedIdentifiersHashed hashes identifiers.
	LoggedIdentifiersHashed LoggedIdentifiers = "Hashed"
	// LoggedIdentifiersOmitted omits identifiers.
	LoggedIdentifiersOmitted LoggedIdentifiers = "Omitted"
)
