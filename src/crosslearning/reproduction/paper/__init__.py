"""The paper's numerical section: its experiments, figures and claims."""
