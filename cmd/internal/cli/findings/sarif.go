package findings

import (
	"io"
	"net/url"

	"github.com/weir-dev/weir/internal/lintrule"
)

// The part of SARIF 2.1.0 that a report needs: https://docs.oasis-open.org/sarif/sarif/v2.1.0/. A test validates it against the schema.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"` // GitHub needs the list also if it is empty
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string       `json:"id"`
		ShortDescription     sarifMessage `json:"shortDescription"`
		HelpURI              string       `json:"helpUri"`
		DefaultConfiguration sarifLevel   `json:"defaultConfiguration"`
	}
	sarifLevel struct {
		Level lintrule.Severity `json:"level"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID              string             `json:"ruleId"`
		RuleIndex           int                `json:"ruleIndex"`
		Level               lintrule.Severity  `json:"level"`
		Message             sarifMessage       `json:"message"`
		Locations           []sarifLocation    `json:"locations"`
		PartialFingerprints map[string]string  `json:"partialFingerprints"`
		Suppressions        []sarifSuppression `json:"suppressions,omitempty"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification"`
	}
	sarifLocation struct {
		PhysicalLocation sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		ArtifactLocation sarifArtifact `json:"artifactLocation"`
		Region           sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

func (r *Report) writeSARIF(w io.Writer) error {
	driver := sarifDriver{Name: "weir lint", Version: r.Version, InformationURI: "https://github.com/weir-dev/weir"}
	index := map[string]int{}
	for i, rule := range lintrule.All() {
		index[rule.ID] = i
		driver.Rules = append(driver.Rules, sarifRule{rule.ID, sarifMessage{rule.Summary}, rule.URL(), sarifLevel{rule.Severity}})
	}
	all := make([]*Finding, len(r.Findings))
	for i := range r.Findings {
		all[i] = &r.Findings[i]
	}
	results, prints := []sarifResult{}, fingerprints(all)
	for i, f := range all {
		result := sarifResult{
			RuleID: f.Rule, RuleIndex: index[f.Rule], Level: f.Severity, Message: sarifMessage{f.about()},
			Locations: []sarifLocation{{sarifPhysical{
				ArtifactLocation: sarifArtifact{(&url.URL{Path: relative(f.File)}).String()},
				Region:           sarifRegion{max(f.Line, 1), f.Column},
			}}},
			PartialFingerprints: map[string]string{"weir/v1": prints[i]},
		}
		if f.Suppressed != "" {
			result.Suppressions = []sarifSuppression{{"inSource", f.Suppressed}}
		}
		results = append(results, result)
	}
	return encode(w, sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{Tool: sarifTool{driver}, Results: results}},
	})
}
