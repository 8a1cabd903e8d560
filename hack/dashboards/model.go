package main

import (
	"bytes"
	"encoding/json"
)

// The types are the part of Grafana's classic dashboard format that the dashboards use. Grafana 9 and later read it.

type dashboard struct {
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	SchemaVersion int        `json:"schemaVersion"`
	Editable      bool       `json:"editable"`
	Refresh       string     `json:"refresh"`
	Time          timeRange  `json:"time"`
	Timezone      string     `json:"timezone"`
	Tooltip       int        `json:"graphTooltip"` // 1: a crosshair that all panels share
	Links         []link     `json:"links"`
	Templating    templating `json:"templating"`
	Panels        []panel    `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// link is a list of the dashboards with a tag. It keeps the variables and the time.
type link struct {
	Type       string   `json:"type"`
	Title      string   `json:"title"`
	Tags       []string `json:"tags"`
	AsDropdown bool     `json:"asDropdown"`
	KeepTime   bool     `json:"keepTime"`
	Variables  bool     `json:"includeVars"`
}

type templating struct {
	List []variable `json:"list"`
}

type variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"`
	Query      string      `json:"query"`
	Datasource *datasource `json:"datasource,omitempty"`
	Refresh    int         `json:"refresh,omitempty"` // 2: when the time range changes
	Sort       int         `json:"sort,omitempty"`
	Multi      bool        `json:"multi"`
	IncludeAll bool        `json:"includeAll"`
	AllValue   string      `json:"allValue,omitempty"`
	Current    *current    `json:"current,omitempty"`
}

type current struct {
	Text  string `json:"text"`
	Value string `json:"value"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Description string      `json:"description,omitempty"`
	Grid        grid        `json:"gridPos"`
	Datasource  *datasource `json:"datasource,omitempty"`
	Targets     []target    `json:"targets,omitempty"`
	FieldConfig *fields     `json:"fieldConfig,omitempty"`
	Options     any         `json:"options,omitempty"`
	Collapsed   *bool       `json:"collapsed,omitempty"` // of a row
}

type grid struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

type target struct {
	RefID      string      `json:"refId"`
	Datasource *datasource `json:"datasource"`
	Expr       string      `json:"expr"`
	Legend     string      `json:"legendFormat"`
	Instant    bool        `json:"instant,omitempty"`
}

type fields struct {
	Defaults  defaults `json:"defaults"`
	Overrides []any    `json:"overrides"`
}

type defaults struct {
	Unit       string         `json:"unit"`
	Min        *float64       `json:"min,omitempty"`
	Decimals   *int           `json:"decimals,omitempty"`
	Color      map[string]any `json:"color,omitempty"`
	Custom     map[string]any `json:"custom,omitempty"`
	Thresholds *thresholds    `json:"thresholds,omitempty"`
	NoValue    string         `json:"noValue,omitempty"`
}

type thresholds struct {
	Mode  string `json:"mode"`
	Steps []step `json:"steps"`
}

// step is the color of values from Value on. The first step has no value.
type step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// json returns the dashboard as indented JSON that ends with a newline.
func (d dashboard) json() []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d); err != nil {
		panic("dashboards: encode plain data: " + err.Error())
	}
	return out.Bytes()
}
